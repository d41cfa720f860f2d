// Messages of Protocol Buffers in their text form.
#ifndef TANDEM_CORE_BASE_TEXT_PROTO_H_
#define TANDEM_CORE_BASE_TEXT_PROTO_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace tandem {

// Reads the text form of a message of the type of `*message`. InvalidArgument, with line and column
// of the first error: it is none, or messages are nested more than `max_depth` deep. `*message`
// then holds what came before.
absl::Status ParseTextProto(const std::string& text, google::protobuf::Message* message,
                            int max_depth = 100);

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_TEXT_PROTO_H_
