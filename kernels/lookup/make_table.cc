// The ops that make lookup tables.
//
// A table with a shared_name is one for all nodes that give this name; so is one of
// use_node_name_sharing, by the node's name. Any other belongs to its node and ends with it, and an
// anonymous one to the handle that a run of its node makes.
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/lookup/lookup_table.h"

namespace tandem::lookup {
namespace {

using Kind = LookupTable::Kind;

// --- Shapes

bool HasValueShape(const ShapeContext& c) { return c.op().FindAttr("value_shape") != nullptr; }

absl::Status TableShape(ShapeContext& c) {
  if (c.op().outputs[0].is_ref) return c.SetOutput(0, PartialShape({2}));
  PartialShape value({});
  if (HasValueShape(c)) value = c.Attr<PartialShape>("value_shape");
  c.SetOutputHandle(0, {{c.Attr<DataType>("key_dtype"), PartialShape({})},
                        {c.Attr<DataType>("value_dtype"), value}});
  return c.SetOutput(0, PartialShape({}));
}

// --- Kernels

absl::StatusOr<LookupTable::Type> TypeOf(const KernelInit& init, Kind kind) {
  LookupTable::Type type;
  type.kind = kind;
  type.key = init.Attr<DataType>("key_dtype");
  type.value = init.Attr<DataType>("value_dtype");
  if (init.op().FindAttr("value_shape") != nullptr) {
    const PartialShape& shape = init.Attr<PartialShape>("value_shape");
    const absl::StatusOr<Shape> whole = shape.ToShape();
    if (!whole.ok() || whole->rank() > 1) {
      return errors::InvalidArgument("value_shape is ", shape.DebugString(),
                                     "; the values of a table are scalars or vectors of one size");
    }
    type.value_shape = *whole;
  }
  return type;
}

ResourceHandle HandleTo(const KernelContext& c, std::string container, std::string name,
                        RefPtr<LookupTable> table) {
  const LookupTable::Type& type = table->type();
  auto description = MakeRef<ResourceHandle::Description>();
  description->device = c.device().name;
  description->container = std::move(container);
  description->name = std::move(name);
  description->type_name = "tensorflow::lookup::LookupInterface";
  description->dtypes_and_shapes = {{type.key, PartialShape({})},
                                    {type.value, PartialShape(type.value_shape)}};
  description->resource = std::move(table);
  return ResourceHandle(RefPtr<const ResourceHandle::Description>(std::move(description)));
}

template <Kind kKind>
class TableKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(type_, TypeOf(init, kKind));
    container_ = init.Attr<std::string>("container");
    if (container_.empty()) container_ = ResourceManager::kDefaultContainer;
    name_ = init.Attr<std::string>("shared_name");
    if (name_.empty() && init.Attr<bool>("use_node_name_sharing")) {
      name_ = std::string(init.node_name());
    }
    if (name_.empty()) {
      static std::atomic<int64_t> next{0};
      name_ = absl::StrCat("_", next.fetch_add(1), "_", init.node_name());
      private_to_ = init.device().resources;
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    MutexLock lock(mu_);
    if (!table_ || table_->is_forgotten()) TANDEM_RETURN_IF_ERROR(MakeHandle(c));
    if (IsReference(c.output_dtype(0))) {
      c.SetOutputReference(0, reference_);
    } else {
      c.SetOutput(0, handle_);
    }
    return absl::OkStatus();
  }

  ~TableKernel() override {
    MutexLock lock(mu_);
    // Somebody may have cleared the container before; then there is nothing to forget.
    if (private_to_ != nullptr && table_) (void)private_to_->Delete<LookupTable>(container_, name_);
  }

 private:
  absl::Status MakeHandle(KernelContext& c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    TANDEM_ASSIGN_OR_RETURN(RefPtr<LookupTable> table,
                            c.device().resources->LookupOrCreate<LookupTable>(
                                container_, name_, [this]() -> absl::StatusOr<RefPtr<LookupTable>> {
                                  return MakeRef<LookupTable>(type_);
                                }));
    if (!(table->type() == type_)) {
      return errors::InvalidArgument(
          "the table '", container_, "/", name_, "' exists already, as a ", table->DebugString(),
          "; this node makes a ", type_.DebugString(), ": use another shared_name");
    }
    if (IsReference(c.output_dtype(0))) {
      reference_ = MakeRef<Variable>(kString, PartialShape({2}));
      MutexLock lock(reference_->mu());
      reference_->value() = Tensor::Vector<std::string>({container_, name_});
    } else {
      handle_ = Tensor::Scalar(HandleTo(c, container_, name_, table));
    }
    table_ = std::move(table);
    return absl::OkStatus();
  }

  LookupTable::Type type_;
  std::string container_;
  std::string name_;
  ResourceManager* private_to_ = nullptr;  // Null: the table has a name of its own.

  Mutex mu_;
  RefPtr<LookupTable> table_ ABSL_GUARDED_BY(mu_);
  // One of these, by the op's output.
  Tensor handle_ ABSL_GUARDED_BY(mu_);
  RefPtr<Variable> reference_ ABSL_GUARDED_BY(mu_);
};

template <Kind kKind>
class AnonymousTableKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(type_, TypeOf(init, kKind));
    name_ = std::string(init.node_name());
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    c.SetOutput(0, Tensor::Scalar(HandleTo(c, "<anonymous>", name_, MakeRef<LookupTable>(type_))));
    return absl::OkStatus();
  }

 private:
  LookupTable::Type type_;
  std::string name_;
};

// --- Registrations

// TensorFlow has kernels for some pairs of types.
KernelDef ForPairs(KernelDef kernel, DataType key, std::vector<DataType> values) {
  kernel.types = {{"key_dtype", {key}}, {"value_dtype", std::move(values)}};
  return kernel;
}
template <typename K>
OpDefBuilder& StaticKernels(OpDefBuilder& op) {
  return op.Cpu(ForPairs(Make<K>(), kInt32, {kFloat64, kFloat32, kInt32, kString}))
      .Cpu(ForPairs(Make<K>(), kInt64, {kFloat64, kFloat32, kInt32, kInt64, kString}))
      .Cpu(ForPairs(Make<K>(), kString, {kBool, kFloat64, kFloat32, kInt32, kInt64, kString}));
}
template <typename K>
OpDefBuilder& MutableKernels(OpDefBuilder& op) {
  return op.Cpu(ForPairs(Make<K>(), kInt32, {kFloat64, kFloat32, kInt32}))
      .Cpu(ForPairs(Make<K>(), kInt64, {kFloat64, kFloat32, kInt32, kInt64, kString, kVariant}))
      .Cpu(ForPairs(Make<K>(), kString, {kBool, kFloat64, kFloat32, kInt32, kInt64}));
}
template <typename K>
OpDefBuilder& VectorKernels(OpDefBuilder& op) {
  return op.Cpu(ForPairs(Make<K>(), kInt32, {kFloat64, kFloat32, kInt32}))
      .Cpu(ForPairs(Make<K>(), kInt64, {kFloat64, kFloat32, kInt32, kInt64, kString}))
      .Cpu(ForPairs(Make<K>(), kString, {kBool, kFloat64, kFloat32, kInt32, kInt64}));
}

constexpr char kNamed[] =
    "container:string=\"\"; shared_name:string=\"\"; use_node_name_sharing:bool=False; "
    "key_dtype:type; value_dtype:type";
constexpr char kAnonymous[] = "key_dtype:type; value_dtype:type";
constexpr char kNamedVectors[] =
    "container:string=\"\"; shared_name:string=\"\"; use_node_name_sharing:bool=False; "
    "key_dtype:type; value_dtype:type; value_shape:shape=[]";
constexpr char kAnonymousVectors[] = "key_dtype:type; value_dtype:type; value_shape:shape=[]";

OpDefBuilder TableOp(const char* name, const char* output, const char* attrs) {
  OpDefBuilder op(name);
  op.Outputs(absl::StrCat("table_handle:", output)).Attrs(attrs).Stateful().Cheap();
  op.Shape(TableShape).HostMemory({"table_handle"});
  return op;
}

OpDefBuilder StaticTable(const char* name, const char* output) {
  OpDefBuilder op = TableOp(name, output, kNamed);
  return StaticKernels<TableKernel<Kind::kStatic>>(op).NotDifferentiable();
}
OpDefBuilder MutableTable(const char* name, const char* output) {
  OpDefBuilder op = TableOp(name, output, kNamed);
  return MutableKernels<TableKernel<Kind::kMutable>>(op).NotDifferentiable();
}
OpDefBuilder VectorTable(const char* name, const char* output) {
  OpDefBuilder op = TableOp(name, output, kNamedVectors);
  return VectorKernels<TableKernel<Kind::kMutable>>(op).NotDifferentiable();
}
OpDefBuilder AnonymousStaticTable() {
  OpDefBuilder op = TableOp("AnonymousHashTable", "resource", kAnonymous);
  return StaticKernels<AnonymousTableKernel<Kind::kStatic>>(op);
}
OpDefBuilder AnonymousMutableTable() {
  OpDefBuilder op = TableOp("AnonymousMutableHashTable", "resource", kAnonymous);
  return MutableKernels<AnonymousTableKernel<Kind::kMutable>>(op);
}
OpDefBuilder AnonymousVectorTable() {
  OpDefBuilder op = TableOp("AnonymousMutableHashTableOfTensors", "resource", kAnonymousVectors);
  return VectorKernels<AnonymousTableKernel<Kind::kMutable>>(op);
}

const OpRegistration registrations[] = {
    StaticTable("HashTable", "ref string"),
    StaticTable("HashTableV2", "resource"),
    MutableTable("MutableHashTable", "ref string"),
    MutableTable("MutableHashTableV2", "resource"),
    VectorTable("MutableHashTableOfTensors", "ref string"),
    VectorTable("MutableHashTableOfTensorsV2", "resource"),
    AnonymousStaticTable(),
    AnonymousMutableTable(),
    AnonymousVectorTable(),
};

}  // namespace
}  // namespace tandem::lookup
