#include "core/base/clock.h"

#include "absl/time/clock.h"

namespace tandem {

Clock* Clock::Real() {
  class RealClock : public Clock {
   public:
    absl::Time Now() override { return absl::Now(); }
  };
  static RealClock clock;
  return &clock;
}

}  // namespace tandem
