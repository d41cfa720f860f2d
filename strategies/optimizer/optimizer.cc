#include "strategies/optimizer/optimizer.h"

#include <charconv>

namespace tandem::optimizer {

OptionList ListOptions(std::initializer_list<std::pair<const char*, double>> options) {
  OptionList list;
  for (const auto& [name, value] : options) {
    char text[32];
    const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
    list.emplace_back(name, std::string(text, end.ptr));
  }
  return list;
}

}  // namespace tandem::optimizer
