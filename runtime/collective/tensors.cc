// Requests over tensors.
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "runtime/collective/group.h"

namespace tandem::collective {
namespace {

Request InPlace(Tensor& value, const OperationId& id) {
  Request request;
  request.dtype = value.dtype();
  request.input = value.data();
  request.output = value.mutable_data();
  request.count = value.num_elements();
  request.dims.assign(value.shape().dims().begin(), value.shape().dims().end());
  request.instance = id.instance;
  request.step = id.step;
  request.name = id.name;
  return request;
}

}  // namespace

Request AllReduceInPlace(Reduction reduction, Tensor& value, const OperationId& id) {
  Request request = InPlace(value, id);
  request.reduction = reduction;
  return request;
}

Request BroadcastInPlace(int root, Tensor& value, const OperationId& id) {
  Request request = InPlace(value, id);
  request.kind = Kind::kBroadcast;
  request.root = root;
  return request;
}

absl::StatusOr<Tensor> AllGatherRows(Group& group, const Tensor& rows, const OperationId& id) {
  if (rows.shape().rank() < 1) {
    return errors::InvalidArgument("all-gather '", id.name, "' of a scalar, which has no rows");
  }
  const size_t size = static_cast<size_t>(group.size());
  const int64_t row_elements =
      rows.shape().dim(0) == 0 ? 0 : rows.num_elements() / rows.shape().dim(0);
  // Rows, and values in one; a member without rows takes any size of them, but not any type.
  const int64_t own[3] = {rows.shape().dim(0), row_elements, static_cast<int64_t>(rows.dtype())};
  std::vector<int64_t> all(size * 3);
  Request sizes;
  sizes.kind = Kind::kAllGather;
  sizes.dtype = kInt64;
  sizes.input = own;
  sizes.output = all.data();
  sizes.count = 3;
  sizes.instance = id.instance;
  sizes.step = id.step;
  sizes.name = id.name;
  TANDEM_RETURN_IF_ERROR(group.Run(std::move(sizes)));
  Shape shape = rows.shape();
  int64_t total = 0;
  Request request;
  for (size_t rank = 0; rank < size; ++rank) {
    const int64_t* const theirs = &all[rank * 3];
    constexpr int64_t kMost = int64_t{1} << 40;
    if (theirs[2] != own[2] || theirs[0] < 0 || theirs[0] > kMost ||
        (theirs[0] > 0 && row_elements > 0 && theirs[1] != row_elements)) {
      return errors::InvalidArgument(
          "all-gather '", id.name, "': member ", rank, " brings ", theirs[0], " rows of ",
          theirs[1], " values of ", DataTypeName(static_cast<DataType>(theirs[2])), ", member ",
          group.rank(), " ", own[0], " of ", own[1], " of ", DataTypeName(rows.dtype()));
    }
    if (theirs[0] > 0 && row_elements == 0 && theirs[1] > 0) {
      // This member has no rows, and so only the shape knows their size.
      int64_t expected = 1;
      for (int i = 1; i < shape.rank(); ++i) expected *= shape.dim(i);
      if (expected != theirs[1]) {
        return errors::InvalidArgument("all-gather '", id.name, "': rows of member ", rank,
                                       " have ", theirs[1], " values, those of member ",
                                       group.rank(), " would have ", expected);
      }
    }
    total += theirs[0];
    request.counts.push_back(theirs[0] * theirs[1]);
  }
  auto dims = shape.dims();
  std::vector<int64_t> result_dims(dims.begin(), dims.end());
  result_dims[0] = total;
  TANDEM_ASSIGN_OR_RETURN(const Shape result_shape, Shape::FromDims(result_dims));
  TANDEM_ASSIGN_OR_RETURN(Tensor result, Tensor::Create(rows.dtype(), result_shape));
  request.kind = Kind::kAllGather;
  request.dtype = rows.dtype();
  request.input = rows.data();
  request.output = result.mutable_data();
  request.instance = id.instance;
  request.step = id.step;
  request.phase = 1;
  request.name = id.name;
  TANDEM_RETURN_IF_ERROR(group.Run(std::move(request)));
  return result;
}

}  // namespace tandem::collective
