#include "tests/fuzz/driver.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/io/file.h"
#include "core/io/testing/mutations.h"
#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tandem {
namespace {

// What a target may need beside a megabyte of input, under the sanitizers too.
constexpr int64_t kMaxPeakKilobytes = int64_t{2} << 20;
constexpr size_t kMaxInputBytes = size_t{1} << 20;

struct Flags {
  uint64_t seed = 1;
  int64_t runs = 20000;
  std::vector<std::string> corpus;
};
Flags* flags = nullptr;

class FuzzTest : public ::testing::Test {
 protected:
  FuzzTest() {
    const char* const folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    if (folder == nullptr) return;
    const std::string path = absl::StrCat(folder, "/input");
    kept_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  ~FuzzTest() override {
    if (kept_ >= 0) close(kept_);
  }

  static std::vector<std::string> ReadCorpus() {
    std::vector<std::string> corpus;
    for (const std::string& path : flags->corpus) {
      const absl::StatusOr<std::string> contents = ReadFile(PosixFileSystem(), path);
      EXPECT_TRUE(contents.ok()) << contents.status();
      if (contents.ok()) corpus.push_back(*contents);
    }
    return corpus;
  }

  void Try(const std::string& input) {
    Keep(input);
    // Of exactly this size, so that the sanitizer sees who reads beyond.
    const std::unique_ptr<uint8_t[]> bytes(new uint8_t[input.size()]);
    std::memcpy(bytes.get(), input.data(), input.size());
    LLVMFuzzerTestOneInput(bytes.get(), input.size());
  }

 private:
  void Keep(const std::string& input) const {
    if (kept_ < 0) return;
    const bool written =
        pwrite(kept_, input.data(), input.size(), 0) == static_cast<ssize_t>(input.size()) &&
        ftruncate(kept_, static_cast<off_t>(input.size())) == 0;
    EXPECT_TRUE(written);
  }

  int kept_ = -1;
};

void ExpectLittleMemory() {
  rusage usage = {};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, kMaxPeakKilobytes) << "kilobytes";
}

TEST_F(FuzzTest, Corpus) {
  const std::vector<std::string> corpus = ReadCorpus();
  ASSERT_FALSE(corpus.empty());
  for (const std::string& input : corpus) Try(input);
  Try("");
  ExpectLittleMemory();
}

TEST_F(FuzzTest, MadeFromTheCorpus) {
  const std::vector<std::string> corpus = ReadCorpus();
  ASSERT_FALSE(corpus.empty());
  std::mt19937_64 random(flags->seed);
  const auto pick = [&]() -> const std::string& { return corpus[random() % corpus.size()]; };
  for (int64_t i = 0; i < flags->runs; ++i) {
    std::string input = pick();
    if (random() % 8 == 0) {  // The beginning of one and the end of another.
      const std::string& other = pick();
      input.resize(random() % (input.size() + 1));
      input += other.substr(random() % (other.size() + 1));
    }
    for (uint64_t rounds = random() % 3 == 0 ? 2 : 1; rounds > 0; --rounds) {
      input = Mutate(std::move(input), random);
    }
    input.resize(std::min(input.size(), kMaxInputBytes));
    Try(input);
    if (HasFailure()) {
      std::fprintf(stderr, "input %lld of this seed\n", static_cast<long long>(i));
      break;
    }
  }
  ExpectLittleMemory();
}

}  // namespace

int RunFuzzTarget(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  Flags parsed;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (absl::ConsumePrefix(&word, "--seed=")) {
      if (!absl::SimpleAtoi(word, &parsed.seed)) return 2;
    } else if (absl::ConsumePrefix(&word, "--runs=")) {
      if (!absl::SimpleAtoi(word, &parsed.runs)) return 2;
    } else {
      parsed.corpus.emplace_back(word);
    }
  }
  flags = &parsed;
  return RUN_ALL_TESTS();
}

}  // namespace tandem
