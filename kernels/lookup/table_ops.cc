// The ops that look into lookup tables and change them.
//
// Each has a form for resource handles (V2) and one for the references of TensorFlow 1.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/lookup/lookup_table.h"
#include "kernels/lookup/table_input.h"

namespace tandem::lookup {
namespace {

// --- Shapes

// The shape of a value in the table, where it is known and the table is one for these types.
// Another one is the kernel's business: TensorFlow takes such a graph, and fails when it runs.
PartialShape ValueShape(const ShapeContext& c, DataType key, DataType value) {
  const KnownTable table = TableBehind(c);
  return table.key == key && table.value == value ? table.value_shape : PartialShape::Unknown();
}

PartialShape Joined(const PartialShape& keys, const PartialShape& value) {
  if (!keys.has_rank() || !value.has_rank()) return PartialShape::Unknown();
  PartialShape joined = keys;
  for (const int64_t size : value.dims()) joined.AddDim(size);
  return joined;
}

absl::Status FindShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckTableHandle(c));
  return c.SetOutput(
      0, Joined(c.input(1), ValueShape(c, c.Attr<DataType>("Tin"), c.Attr<DataType>("Tout"))));
}

absl::Status ChangeShape(ShapeContext& c) { return CheckTableHandle(c); }

absl::Status RemoveShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckTableHandle(c));
  return c.RequireRankAtLeast(1, 1);
}

absl::Status SizeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckTableHandle(c));
  return ScalarShape(c);
}

absl::Status ExportShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckTableHandle(c));
  const PartialShape keys = PartialShape::UnknownOfRank(1);
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, keys));
  return c.SetOutput(
      1, Joined(keys, ValueShape(c, c.Attr<DataType>("Tkeys"), c.Attr<DataType>("Tvalues"))));
}

absl::Status InitializeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckTableHandle(c));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  return c.input(1).MergeWith(c.input(2)).status();
}

// --- Kernels

absl::Status Find(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
  const Tensor& keys = c.input(1);
  const Tensor& defaults = c.input(2);
  TANDEM_ASSIGN_OR_RETURN(Shape shape, table->ValuesShape(keys, defaults));
  if (table->type().value != c.output_dtype(0)) {
    return errors::InvalidArgument("values are of type ", DataTypeName(c.output_dtype(0)),
                                   " for a ", table->DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(0, std::move(shape)));
  return table->Find(keys, defaults, values);
}

absl::Status Insert(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
  return table->Insert(c.input(1), c.input(2));
}

absl::Status Import(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
  return table->Import(c.input(1), c.input(2));
}

absl::Status Remove(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
  return table->Remove(c.input(1));
}

absl::Status Size(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
  c.SetOutput(0, Tensor::Scalar<int64_t>(table->size()));
  return absl::OkStatus();
}

absl::Status Export(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
  if (table->type().key != c.output_dtype(0) || table->type().value != c.output_dtype(1)) {
    return errors::InvalidArgument("keys of type ", DataTypeName(c.output_dtype(0)),
                                   " and values of type ", DataTypeName(c.output_dtype(1)),
                                   " are wanted of a ", table->DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(LookupTable::Contents contents, table->Export());
  c.SetOutput(0, std::move(contents.keys));
  c.SetOutput(1, std::move(contents.values));
  return absl::OkStatus();
}

absl::Status Initialize(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
  for (const int i : {1, 2}) {
    if (c.input(i).shape().IsVector()) continue;
    return errors::InvalidArgument(i == 1 ? "keys" : "values",
                                   " must be a vector; they have shape ",
                                   c.input(i).shape().DebugString());
  }
  if (c.input(1).num_elements() == 0) {
    return errors::InvalidArgument("there are no keys to initialize a ", table->DebugString(),
                                   " with");
  }
  return table->Initialize(c.input(1), c.input(2));
}

// --- Registrations

struct TableOp {
  const char* name;
  const char* inputs;  // After the handle.
  const char* outputs;
  const char* attrs;
  ShapeFunction shape;
  KernelFunction kernel;
  bool not_differentiable;
  // Tables lie in the host's memory, and so does what goes in and out.
  std::vector<std::string> host_memory;
};

OpDefBuilder Define(const TableOp& op, bool by_reference) {
  OpDefBuilder builder(by_reference ? op.name : absl::StrCat(op.name, "V2"));
  builder.Inputs(
      absl::StrCat(by_reference ? "table_handle:ref string" : "table_handle:resource", op.inputs));
  builder.Outputs(op.outputs).Attrs(op.attrs).Shape(op.shape).Cpu(Function(op.kernel));
  builder.HostMemory(op.host_memory);
  if (!by_reference) builder.Stateful();
  if (op.not_differentiable) builder.NotDifferentiable();
  return builder;
}

const TableOp kFind = {"LookupTableFind",
                       ", keys:Tin, default_value:Tout",
                       "values:Tout",
                       "Tin:type; Tout:type",
                       FindShape,
                       Find,
                       true,
                       {"table_handle", "keys", "default_value", "values"}};
const TableOp kInsert = {"LookupTableInsert",
                         ", keys:Tin, values:Tout",
                         "",
                         "Tin:type; Tout:type",
                         ChangeShape,
                         Insert,
                         true,
                         {"table_handle", "keys", "values"}};
const TableOp kImport = {"LookupTableImport",
                         ", keys:Tin, values:Tout",
                         "",
                         "Tin:type; Tout:type",
                         ChangeShape,
                         Import,
                         false,
                         {"table_handle", "keys", "values"}};
const TableOp kRemove = {"LookupTableRemove", ", keys:Tin", "",    "Tin:type",
                         RemoveShape,         Remove,       false, {"table_handle", "keys"}};
const TableOp kSize = {"LookupTableSize", "",   "size:int64", "",
                       SizeShape,         Size, true,         {"table_handle", "size"}};
const TableOp kExport = {"LookupTableExport",
                         "",
                         "keys:Tkeys, values:Tvalues",
                         "Tkeys:type; Tvalues:type",
                         ExportShape,
                         Export,
                         false,
                         {"table_handle", "keys", "values"}};
const TableOp kInitialize = {"InitializeTable",
                             ", keys:Tkey, values:Tval",
                             "",
                             "Tkey:type; Tval:type",
                             InitializeShape,
                             Initialize,
                             true,
                             {"table_handle", "keys", "values"}};

const OpRegistration registrations[] = {
    Define(kFind, true),        Define(kFind, false),   Define(kInsert, true),
    Define(kInsert, false),     Define(kImport, true),  Define(kImport, false),
    Define(kRemove, false),     Define(kSize, true),    Define(kSize, false),
    Define(kExport, true),      Define(kExport, false), Define(kInitialize, true),
    Define(kInitialize, false),
};

}  // namespace
}  // namespace tandem::lookup
