#include "runtime/input/line_files.h"

#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {

absl::StatusOr<bool> LineFiles::NextOfSameFile(std::string* line) {
  if (!reader_) {
    TANDEM_ASSIGN_OR_RETURN(reader_, FileReader::Open(paths_[file_]));
    line_number_ = 0;
  }
  TANDEM_ASSIGN_OR_RETURN(const bool found, reader_->ReadLine(line));
  if (found) ++line_number_;
  return found;
}

absl::StatusOr<bool> LineFiles::Next(std::string* line) {
  for (;;) {
    TANDEM_ASSIGN_OR_RETURN(const bool found, NextOfSameFile(line));
    if (found) return true;
    if (file_ + 1 == paths_.size()) return false;
    ++file_;
    reader_.reset();
  }
}

absl::Status LineFiles::Save(absl::string_view kind, InputState* state) const {
  state->set_kind(std::string(kind));
  state->add_numbers(static_cast<int64_t>(file_));
  state->add_numbers(reader_ ? reader_->offset() : 0);
  state->add_numbers(reader_ ? line_number_ : 0);
  return absl::OkStatus();
}

absl::Status LineFiles::Restore(absl::string_view kind, const InputState& state) {
  TANDEM_RETURN_IF_ERROR(CheckState(state, kind, 3, 0));
  if (state.numbers(0) < 0 || state.numbers(0) >= static_cast<int64_t>(paths_.size())) {
    return BadState(kind, absl::StrCat("stands in file ", state.numbers(0), " of ", paths_.size()));
  }
  file_ = static_cast<size_t>(state.numbers(0));
  TANDEM_ASSIGN_OR_RETURN(reader_, FileReader::Open(paths_[file_]));
  line_number_ = state.numbers(2);
  return reader_->Seek(state.numbers(1));
}

}  // namespace tandem::data
