#include "kernels/math/elementwise.h"

#include <atomic>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "kernels/common/broadcast.h"
#include "kernels/common/elementwise_kernel.h"

namespace tandem::math {
namespace {

char* At(void* data, int64_t index, size_t size) {
  return static_cast<char*>(data) + static_cast<size_t>(index) * size;
}
const char* At(const void* data, int64_t index, size_t size) {
  return static_cast<const char*>(data) + static_cast<size_t>(index) * size;
}

// Below this an op runs where it is, without asking for threads.
constexpr int64_t kSmall = 1024;

class Unary final : public ElementwiseKernel {
 public:
  Unary(UnaryLoop loop, double cost, DataType in, DataType out)
      : loop_(loop), cost_(cost), in_size_(DataTypeSize(in)), out_size_(DataTypeSize(out)) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    const int64_t n = x.num_elements();
    const void* const from = x.data();
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.ForwardOrAllocate({0}, 0, x.shape()));
    void* const to = y->mutable_data();
    if (n <= kSmall) {
      if (n > 0) loop_(from, to, n);
      return absl::OkStatus();
    }
    c.parallel().For(n, cost_, [&](int64_t begin, int64_t end) {
      loop_(At(from, begin, in_size_), At(to, begin, out_size_), end - begin);
    });
    return absl::OkStatus();
  }

  bool ComputeBlock(const void* const* inputs, void* out, int64_t n) const override {
    loop_(inputs[0], out, n);
    return true;
  }
  double cost() const override { return cost_; }
  bool broadcasts() const override { return true; }

 private:
  const UnaryLoop loop_;
  const double cost_;
  const size_t in_size_;
  const size_t out_size_;
};

class Binary final : public ElementwiseKernel {
 public:
  struct Options {
    const char* what_failed = "";
    bool same_shape = false;
    bool answers_incompatible = false;  // With `when_incompatible`.
    bool when_incompatible = false;
  };

  Binary(BinaryLoop loop, double cost, DataType in, DataType out, const Options& options)
      : loop_(loop),
        cost_(cost),
        in_size_(DataTypeSize(in)),
        out_size_(DataTypeSize(out)),
        options_(options) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    const Tensor& y = c.input(1);
    if (x.shape() == y.shape()) return ComputeEqualShapes(c, x, y);
    if (options_.same_shape) {
      return errors::InvalidArgument("the inputs have shapes ", x.shape().DebugString(), " and ",
                                     y.shape().DebugString(), "; they must be equal");
    }
    absl::StatusOr<BroadcastPlan> plan = BroadcastPlan::Make({&x.shape(), &y.shape()});
    if (!plan.ok()) {
      if (!options_.answers_incompatible) return std::move(plan).status();
      TANDEM_ASSIGN_OR_RETURN(Tensor * z, c.AllocateOutput(0, Shape()));
      z->MutableElements<bool>()[0] = options_.when_incompatible;
      return absl::OkStatus();
    }
    const void* const a = x.data();
    const void* const b = y.data();
    TANDEM_ASSIGN_OR_RETURN(Tensor * z, c.ForwardOrAllocate({0, 1}, 0, plan->output_shape()));
    void* const to = z->mutable_data();
    std::atomic<bool> failed{false};
    const auto body = [&](int64_t begin, int64_t end) {
      plan->ForEachBlock({a, b}, {in_size_, in_size_}, begin, end,
                         [&](const void* const* in, int64_t first, int64_t n) {
                           if (!loop_(in[0], in[1], At(to, first, out_size_), n)) failed = true;
                         });
    };
    const int64_t n = plan->num_elements();
    if (n <= kSmall) {
      body(0, n);
    } else {
      c.parallel().For(n, cost_, body);
    }
    return failed ? errors::InvalidArgument(options_.what_failed) : absl::OkStatus();
  }

  bool ComputeBlock(const void* const* inputs, void* out, int64_t n) const override {
    return loop_(inputs[0], inputs[1], out, n);
  }
  double cost() const override { return cost_; }
  bool broadcasts() const override { return !options_.same_shape; }

 private:
  absl::Status ComputeEqualShapes(KernelContext& c, const Tensor& x, const Tensor& y) {
    const int64_t n = x.num_elements();
    const void* const a = x.data();
    const void* const b = y.data();
    TANDEM_ASSIGN_OR_RETURN(Tensor * z, c.ForwardOrAllocate({0, 1}, 0, x.shape()));
    void* const to = z->mutable_data();
    if (n <= kSmall) {
      if (n > 0 && !loop_(a, b, to, n)) return errors::InvalidArgument(options_.what_failed);
      return absl::OkStatus();
    }
    std::atomic<bool> failed{false};
    c.parallel().For(n, cost_, [&](int64_t begin, int64_t end) {
      if (!loop_(At(a, begin, in_size_), At(b, begin, in_size_), At(to, begin, out_size_),
                 end - begin)) {
        failed = true;
      }
    });
    return failed ? errors::InvalidArgument(options_.what_failed) : absl::OkStatus();
  }

  const BinaryLoop loop_;
  const double cost_;
  const size_t in_size_;
  const size_t out_size_;
  const Options options_;
};

// Types whose loops go through a conversion take longer.
double CostFor(DataType type, double cost) {
  return type == kFloat16 || type == kBfloat16 ? cost + 0.5 : cost;
}

template <typename TypedLoop>
KernelDef Constrained(const std::vector<TypedLoop>& loops, const char* type_attr) {
  KernelDef def;
  std::vector<DataType> types;
  for (const TypedLoop& each : loops) types.push_back(each.type);
  def.types = {{type_attr, std::move(types)}};
  return def;
}

// The loop for the node's type. FindKernel saw to it that there is one.
template <typename TypedLoop>
const TypedLoop& Pick(const std::vector<TypedLoop>& loops, DataType type) {
  for (const TypedLoop& each : loops) {
    if (each.type == type) return each;
  }
  return loops.front();
}

KernelDef MakeBinary(std::vector<TypedBinaryLoop> loops, double cost,
                     const Binary::Options& options) {
  KernelDef def = Constrained(loops, "T");
  def.factory = [loops = std::move(loops), cost,
                 options](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    Binary::Options own = options;
    if (init.attrs().count("incompatible_shape_error") != 0) {
      own.answers_incompatible = !init.Attr<bool>("incompatible_shape_error");
    }
    const TypedBinaryLoop& picked = Pick(loops, init.Attr<DataType>("T"));
    return std::make_unique<Binary>(picked.loop, CostFor(picked.type, cost), picked.type,
                                    init.output_dtype(0), own);
  };
  return def;
}

}  // namespace

KernelDef UnaryKernel(std::vector<TypedUnaryLoop> loops, double cost, const char* type_attr) {
  KernelDef def = Constrained(loops, type_attr);
  def.factory = [loops = std::move(loops), cost, attr = std::string(type_attr)](
                    KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const TypedUnaryLoop& picked = Pick(loops, init.Attr<DataType>(attr));
    return std::make_unique<Unary>(picked.loop, CostFor(picked.type, cost), picked.type,
                                   init.output_dtype(0));
  };
  return def;
}

KernelDef UnaryFunctionKernel(DataType type, UnaryLoop loop, double cost) {
  KernelDef def;
  def.factory = [=](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<Unary>(loop, cost, type, init.output_dtype(0));
  };
  return def;
}

KernelDef BinaryFunctionKernel(DataType type, BinaryLoop loop, double cost) {
  KernelDef def;
  def.factory = [=](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<Binary>(loop, cost, type, init.output_dtype(0), Binary::Options());
  };
  return def;
}

KernelDef BinaryKernel(std::vector<TypedBinaryLoop> loops, double cost, const char* what_failed) {
  Binary::Options options;
  options.what_failed = what_failed;
  return MakeBinary(std::move(loops), cost, options);
}

KernelDef SameShapeKernel(std::vector<TypedBinaryLoop> loops, double cost) {
  Binary::Options options;
  options.same_shape = true;
  return MakeBinary(std::move(loops), cost, options);
}

KernelDef EqualityKernel(std::vector<TypedBinaryLoop> loops, bool when_incompatible) {
  Binary::Options options;
  options.when_incompatible = when_incompatible;
  return MakeBinary(std::move(loops), kCheap, options);
}

}  // namespace tandem::math
