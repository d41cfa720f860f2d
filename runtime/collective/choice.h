// ChoiceTable: which algorithm is used for which operation and size. Alike at all members of a
// group, who get it from member 0.
//
// As text, a line for each entry, sorted by size within a kind:
//   # kind    up to bytes    algorithm
//   all-reduce 8192 one_shot
//   all-reduce inf ring
#ifndef TANDEM_RUNTIME_COLLECTIVE_CHOICE_H_
#define TANDEM_RUNTIME_COLLECTIVE_CHOICE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/collective/algorithm.h"

namespace tandem::collective {

class ChoiceTable {
 public:
  // By what is known of the algorithms' costs, before anything was measured.
  static ChoiceTable Default(int size, const std::vector<int>& hosts);
  // InvalidArgument: the line and what is wrong with it.
  static absl::StatusOr<ChoiceTable> Parse(absl::string_view text);

  // Uses `algorithm` for operations of this kind of up to `bytes` bytes (that no smaller entry is
  // for).
  void Set(Kind kind, int64_t bytes, absl::string_view algorithm);
  // Uses one algorithm for everything that it solves. NotFound: there is none of this name; the
  // message lists those that there are.
  absl::Status Pin(absl::string_view algorithm);

  // Never null: whatever no entry solves is done by one_shot, dissemination or fixed_tree.
  const Algorithm* Choose(const Problem& problem, int64_t bytes) const;

  std::string ToString() const;

 private:
  std::string pinned_;
  std::map<Kind, std::map<int64_t, std::string>> entries_;  // By upper limit.
};

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_CHOICE_H_
