// Values as the bias ops see them, for the CPU's kernels and those for GPUs.
#ifndef TANDEM_KERNELS_NN_BIAS_CHANNELS_H_
#define TANDEM_KERNELS_NN_BIAS_CHANNELS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/status.h"
#include "core/op/attr_value.h"
#include "core/tensor/shape.h"

namespace tandem {

// A shape as [outer, channels, inner].
struct BiasChannels {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};

// BiasAddV1 has no attribute of a format.
inline bool HasChannelsFirst(const AttrMap& attrs) {
  const auto found = attrs.find("data_format");
  return found != attrs.end() && *found->second.Get<std::string>() == "NCHW";
}

// The axis of the channels: the last one, or 1 with "NCHW".
inline int ChannelAxisOf(bool channels_first, int rank) { return channels_first ? 1 : rank - 1; }

inline absl::StatusOr<BiasChannels> ChannelsOf(const Shape& shape, bool channels_first) {
  if (shape.rank() < 2) {
    return errors::InvalidArgument("values must have rank 2 at least, not shape ",
                                   shape.DebugString());
  }
  BiasChannels c;
  const int axis = ChannelAxisOf(channels_first, shape.rank());
  for (int i = 0; i < axis; ++i) c.outer *= shape.dim(i);
  c.channels = shape.dim(axis);
  for (int i = axis + 1; i < shape.rank(); ++i) c.inner *= shape.dim(i);
  return c;
}

// The same; InvalidArgument, too, when the bias has not a number for each channel.
inline absl::StatusOr<BiasChannels> ChannelsForBias(const Shape& value, const Shape& bias,
                                                    bool channels_first) {
  TANDEM_ASSIGN_OR_RETURN(const BiasChannels c, ChannelsOf(value, channels_first));
  if (!bias.IsVector() || bias.dim(0) != c.channels) {
    return errors::InvalidArgument("a bias of shape ", bias.DebugString(), " does not fit the ",
                                   c.channels, " channels of shape ", value.DebugString());
  }
  return c;
}

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_BIAS_CHANNELS_H_
