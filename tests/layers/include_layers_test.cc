#include "tests/layers/include_layers.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace fs = std::filesystem;

std::vector<std::string> Messages(const std::vector<UpwardArrow>& arrows) {
  std::vector<std::string> messages;
  for (const UpwardArrow& arrow : arrows) messages.push_back(arrow.Message());
  return messages;
}

// The planted lines are put together here, so that this file has no such line itself.
std::string Include(const std::string& path) { return absl::StrCat("#include \"", path, "\"\n"); }

TEST(FindUpwardArrows, NamesFileLineAndBothLayers) {
  const std::string text = "// A header.\n\n" + Include("runtime/session/session.h");
  EXPECT_THAT(Messages(FindUpwardArrows("core/graph/graph.h", text)),
              ElementsAre("core/graph/graph.h:3: the layer core/ may not use runtime/ above it: "
                          "#include \"runtime/session/session.h\""));
}

TEST(FindUpwardArrows, EveryLayerRefusesTheOneAboveIt) {
  const std::vector<std::string> upwards = {"proto/a.h",   "core/a.h",       "kernels/a.h",
                                            "runtime/a.h", "strategies/a.h", "tandem.h",
                                            "tools/a.h",   "tests/a.h"};
  for (size_t low = 0; low < upwards.size(); ++low) {
    for (size_t high = 0; high < upwards.size(); ++high) {
      EXPECT_THAT(FindUpwardArrows(upwards[low], Include(upwards[high])),
                  SizeIs(high > low ? 1 : 0))
          << upwards[low] << " includes " << upwards[high];
    }
  }
}

TEST(FindUpwardArrows, ToolsAndExamplesMayUseEachOther) {
  EXPECT_THAT(FindUpwardArrows("tools/a.cc", Include("docs/examples/b.h")), IsEmpty());
  EXPECT_THAT(FindUpwardArrows("docs/examples/b.cc", Include("tools/a.h")), IsEmpty());
}

TEST(FindUpwardArrows, SystemHeadersAreNoLayer) {
  EXPECT_THAT(FindUpwardArrows("core/a.cc", "#include <vector>\n" + Include("absl/time/time.h")),
              IsEmpty());
}

TEST(FindUpwardArrows, AngleBracketsAndSpacesDoNotHideAnInclude) {
  EXPECT_THAT(FindUpwardArrows("core/a.cc", "  #  include  <runtime/a.h>\n"), SizeIs(1));
  EXPECT_THAT(FindUpwardArrows("core/a.cc", "#include\t\"runtime/a.h\"  // why\n"), SizeIs(1));
}

TEST(FindUpwardArrows, ProtoImportsAreArrows) {
  EXPECT_THAT(FindUpwardArrows("proto/a.proto", "import public \"core/b.proto\";\n"), SizeIs(1));
  EXPECT_THAT(FindUpwardArrows("proto/a.proto", "import \"proto/b.proto\";\n"), IsEmpty());
}

TEST(FindUpwardArrows, TestsReachUpToRuntimeAndNoFurther) {
  EXPECT_THAT(FindUpwardArrows("core/graph/a_test.cc", Include("runtime/session.h")), IsEmpty());
  EXPECT_THAT(FindUpwardArrows("kernels/testing/op.h", Include("runtime/session.h")), IsEmpty());
  EXPECT_THAT(FindUpwardArrows("core/graph/a_test.cc", Include("strategies/a.h")), SizeIs(1));
  EXPECT_THAT(FindUpwardArrows("strategies/a_test.cc", Include("tools/a.h")), SizeIs(1));
}

TEST(FindUpwardArrows, UnfinishedLinesAreNoIncludes) {
  EXPECT_THAT(FindUpwardArrows("core/a.cc", "#include \"runtime/a.h\n#include\n#include runtime/"),
              IsEmpty());
}

TEST(ListSources, FindsSourcesOfLayersOnly) {
  const fs::path root = fs::path(::testing::TempDir()) / "list_sources";
  fs::remove_all(root);
  for (const char* file : {"core/a/b.h", "proto/c.proto", "kernels/d_gpu.cu.cc", "tandem.h",
                           "core/notes.md", "third_party/e.h"}) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << "\n";
  }
  EXPECT_THAT(ListSources(root),
              ElementsAre("core/a/b.h", "kernels/d_gpu.cu.cc", "proto/c.proto", "tandem.h"));
}

// The real sources, not the test's copies: Bazel links WORKSPACE into the test's folder, and the
// link leads to the repository. The target is tagged so that Bazel never answers from its cache.
class Repository : public ::testing::Test {
 protected:
  void SetUp() override {
    std::error_code error;
    const fs::path workspace = fs::canonical("WORKSPACE", error);
    ASSERT_FALSE(error) << "the repository was not found through the link WORKSPACE: "
                        << error.message();
    root_ = workspace.parent_path();
    sources_ = ListSources(root_);
    ASSERT_THAT(sources_, Contains("tests/layers/include_layers_test.cc")) << "in " << root_;
  }

  std::string TextOf(const std::string& source) const {
    std::ifstream in(root_ / source, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  fs::path root_;
  std::vector<std::string> sources_;
};

TEST_F(Repository, HasNoArrowThatPointsUp) {
  std::vector<UpwardArrow> arrows;
  for (const std::string& source : sources_) {
    for (UpwardArrow& arrow : FindUpwardArrows(source, TextOf(source))) {
      arrows.push_back(std::move(arrow));
    }
  }
  EXPECT_THAT(arrows, IsEmpty()) << absl::StrJoin(Messages(arrows), "\n");
}

// Otherwise graphs of strangers would come to files that their server keeps from them.
TEST_F(Repository, KernelsComeToFilesThroughTheirDevice) {
  for (const std::string& source : sources_) {
    if (!absl::StartsWith(source, "kernels/") || IsTestFile(source) ||
        source == "kernels/io/file_kernel.h") {
      continue;
    }
    const std::string text = TextOf(source);
    for (const char* way : {"PosixFileSystem", "fstream>", "<fcntl.h>", "fopen(", "<filesystem>"}) {
      EXPECT_FALSE(absl::StrContains(text, way))
          << source << " uses " << way << "; use FilesOf (kernels/io/file_kernel.h)";
    }
  }
}

}  // namespace
}  // namespace tandem
