// The version of Tandem, which all of its programs print and an installed library carries.
#ifndef TANDEM_CORE_BASE_VERSION_H_
#define TANDEM_CORE_BASE_VERSION_H_

namespace tandem {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_VERSION_H_
