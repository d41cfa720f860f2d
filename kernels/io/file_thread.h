// Threads for kernels that read and write files.
//
// A thread that waits for a disk may not be one of the executor's: those hold run tokens, one for
// each core, and kernels that compute would stand still meanwhile. So kernels of files are
// AsyncKernels that hand their work over here.
#ifndef TANDEM_KERNELS_IO_FILE_THREAD_H_
#define TANDEM_KERNELS_IO_FILE_THREAD_H_

#include "absl/functional/any_invocable.h"

namespace tandem::io {

// Runs `work` on one of a few threads, which are started as they are needed and live as long as the
// process; in the order of the calls when all are busy. When the system grants no thread, runs it
// here before it returns.
//
// `work` may take as long as it likes, and may not wait for other work of this kind. Threads: any.
void RunOnFileThread(absl::AnyInvocable<void()> work);

}  // namespace tandem::io

#endif  // TANDEM_KERNELS_IO_FILE_THREAD_H_
