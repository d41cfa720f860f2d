// StopOnSignals: while it lives, SIGINT, SIGTERM and SIGHUP are written down instead of ending the
// process. One that comes when somebody has seen one already ends it after all. A SIGHUP that the
// process ignores (nohup) stays ignored. On a terminal a line tells at once that a signal was
// heard.
#ifndef TANDEM_STRATEGIES_TRAINER_SIGNALS_H_
#define TANDEM_STRATEGIES_TRAINER_SIGNALS_H_

#include <csignal>

namespace tandem {

// Signals belong to the process: several may live at once (trainers on several threads), and all of
// them see the signal.
class StopOnSignals {
 public:
  // Does nothing when `active` is false.
  explicit StopOnSignals(bool active);
  // Gives the former handlers back.
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

  // The last of these signals when it came since this was made; else 0.
  int received() const;

 private:
  const bool active_;
  int before_ = 0;  // How many had come when this was made.
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_SIGNALS_H_
