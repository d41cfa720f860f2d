#include "core/kernel/kernel.h"

#include <algorithm>

#include "core/base/status.h"

namespace tandem {

Allocator* KernelContext::OutputAllocator(int i) const {
  const bool host = (params_.host_outputs >> std::min(i, 63)) & 1;
  return host ? HostAllocator() : params_.device->allocator;
}

absl::StatusOr<Tensor*> KernelContext::AllocateOutput(int i, Shape shape) {
  Slot& slot = params_.outputs[i];
  TANDEM_ASSIGN_OR_RETURN(slot.value, Tensor::Create(RemoveReference(output_dtype(i)),
                                                     std::move(shape), OutputAllocator(i)));
  slot.state = Slot::State::kValue;
  return &slot.value;
}

absl::StatusOr<Tensor*> KernelContext::ForwardOrAllocate(std::initializer_list<int> candidates,
                                                         int i, Shape shape) {
  const DataType dtype = RemoveReference(output_dtype(i));
  const size_t element_size = DataTypeSize(dtype);
  const bool host = (params_.host_outputs >> std::min(i, 63)) & 1;
  for (const int candidate : candidates) {
    Slot& slot = input_slot(candidate);
    Tensor& value = slot.value;
    // Object types own memory beyond their elements; host arguments live elsewhere.
    if (host || slot.state != Slot::State::kValue ||
        slot.uses.load(std::memory_order_acquire) != 1 || !value.OwnsBufferAlone() ||
        value.num_elements() != shape.num_elements() ||
        DataTypeSize(value.dtype()) != element_size || !IsTriviallyCopyable(value.dtype()) ||
        !IsTriviallyCopyable(dtype)) {
      continue;
    }
    // The consumer's own view of its input stays valid: the output is a second view of the memory.
    Slot& output = params_.outputs[i];
    void* data = value.mutable_data();
    output.value = Tensor::FromBuffer(dtype, std::move(shape), value.buffer(), data);
    output.state = Slot::State::kValue;
    return &output.value;
  }
  return AllocateOutput(i, std::move(shape));
}

absl::StatusOr<Tensor> KernelContext::AllocateTemporary(DataType dtype, Shape shape) {
  return Tensor::Create(dtype, std::move(shape), params_.device->allocator);
}

absl::Status AsyncKernel::Compute(KernelContext& c) {
  return errors::Internal("the asynchronous kernel of node '", c.node_name(),
                          "' was run as a synchronous one");
}

}  // namespace tandem
