// Starting threads without exceptions.
#ifndef TANDEM_RUNTIME_THREADS_START_THREAD_H_
#define TANDEM_RUNTIME_THREADS_START_THREAD_H_

#include <functional>
#include <string>
#include <thread>

namespace tandem {

// Starts a thread that debuggers and `top -H` show as `name` (cut to 15 bytes). When the system
// refuses (limits of processes or memory), logs why, and returns a thread that is not joinable.
// Signals are for the program's own threads: they are blocked in it (BlockedSignals).
std::thread StartThread(const std::string& name, std::function<void()> body);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_START_THREAD_H_
