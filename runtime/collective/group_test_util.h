// Groups whose members are threads of one process, for tests.
#ifndef TANDEM_RUNTIME_COLLECTIVE_GROUP_TEST_UTIL_H_
#define TANDEM_RUNTIME_COLLECTIVE_GROUP_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/collective/group.h"
#include "runtime/collective/key_value_store.h"

namespace tandem::collective {

// For names of tests.
inline std::string NameOf(TransportKind transport) {
  const char* const names[] = {"auto", "inprocess", "shm", "tcp"};
  return names[static_cast<int>(transport)];
}

using Groups = std::vector<std::unique_ptr<Group>>;

inline GroupOptions TestOptions(int size, TransportKind transport) {
  GroupOptions options;
  options.key = "test";
  options.transport = transport;
  for (int i = 0; i < size; ++i) {
    options.members.push_back({absl::StrCat("worker:", i), "127.0.0.1", 0});
  }
  if (transport == TransportKind::kInProcess) {
    options.hub = std::make_shared<transport::InProcessHub>(size);
  }
  // A busy machine is not a failure.
  options.lost_after = absl::Seconds(60);
  options.flight_folder = ::testing::TempDir();
  return options;
}

// Calls f(rank) on a thread for each of `size` members.
inline void OnAll(int size, const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) threads.emplace_back([&f, i] { f(i); });
  for (std::thread& thread : threads) thread.join();
}

// `change` may edit a member's options.
inline Groups FormAll(const GroupOptions& options,
                      const std::function<void(GroupOptions&)>& change = nullptr) {
  const int size = static_cast<int>(options.members.size());
  InMemoryStore store;
  Groups groups(options.members.size());
  OnAll(size, [&](int rank) {
    GroupOptions own = options;
    own.rank = rank;
    if (change) change(own);
    absl::StatusOr<std::unique_ptr<Group>> group = Group::Form(std::move(own), &store);
    ASSERT_TRUE(group.ok()) << group.status();
    groups[static_cast<size_t>(rank)] = *std::move(group);
  });
  return groups;
}

// Ends them at the same time, as members of one job do.
inline void EndAll(Groups& groups) {
  OnAll(static_cast<int>(groups.size()),
        [&](int rank) { groups[static_cast<size_t>(rank)].reset(); });
}

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_GROUP_TEST_UTIL_H_
