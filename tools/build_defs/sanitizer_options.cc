// What the sanitizers' run-time libraries ask a program for when it starts. Part of every test and
// program through tandem.bzl, so that a server started by a test has the same options as the test;
// empty without a sanitizer. The environment (TSAN_OPTIONS, ASAN_OPTIONS) overrides each option.

#if defined(TANDEM_TSAN)

#include <csignal>

// The sanitizer asks a process of its own, in this one's group, for the names of functions. A signal
// to the group ends that one, too, and the next question would end this one without a word.
__attribute__((constructor)) static void IgnoreBrokenPipes() { std::signal(SIGPIPE, SIG_IGN); }

extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_suppressions();

// Here as under the address sanitizer: an allocation that is too large gives null where the program
// asks for that, as it does without a sanitizer, instead of ending the process.
//
// The system's libraries are not instrumented: locks inside them are invisible, so what they do
// among themselves must be ignored, or correctly locked data looks like a race.
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1:history_size=4:"
         "allocator_may_return_null=1";
}

// gRPC's and Abseil's headers bring code into instrumented objects that hands work over through the
// uninstrumented library. A thread of gRPC's own may end as the program does, joined by nobody.
extern "C" const char* __tsan_default_suppressions() {
  return "race:^grpc::\n"
         "race:^std::_Function_handler<void (bool), grpc::\n"
         "race:^grpc_event_engine::\n"
         "thread:^grpc_core::Thread::\n";
}

#elif defined(TANDEM_ASAN)

extern "C" const char* __asan_default_options();
extern "C" const char* __ubsan_default_options();
extern "C" const char* __lsan_default_suppressions();

extern "C" const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1:"
         "allocator_may_return_null=1";
}

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

// gRPC's resolver keeps what it looked up until the process ends.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares\n"; }

#endif
