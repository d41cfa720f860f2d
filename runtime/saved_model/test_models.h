// The models of testdata, for tests.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_TEST_MODELS_H_
#define TANDEM_RUNTIME_SAVED_MODEL_TEST_MODELS_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/io/file.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"
#include "proto/saved_model.pb.h"
#include "runtime/saved_model/saved_model.h"

namespace tandem {

inline std::string TestModel(const std::string& name) {
  return absl::StrCat("runtime/saved_model/testdata/", name);
}

// An empty folder of the running test's own.
inline std::string TestFolder() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = absl::StrCat(test->test_suite_name(), "_", test->name());
  for (char& c : name) c = c == '/' ? '_' : c;
  const std::string folder = JoinPath(testing::TempDir(), name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// A copy of one of the models, below TestFolder(), that may be changed.
inline std::string CopyModel(const std::string& name) {
  const std::string copy = JoinPath(TestFolder(), name);
  std::filesystem::copy(TestModel(name), copy, std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(copy)) {
    std::filesystem::permissions(entry, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
  return copy;
}

// Changes the message of a model.
inline void EditModel(const std::string& folder,
                      const std::function<void(tensorflow::MetaGraphDef& meta_graph)>& edit) {
  const std::string path = JoinPath(folder, "saved_model.pb");
  tensorflow::SavedModel model;
  ASSERT_TRUE(model.ParseFromString(*ReadFile(PosixFileSystem(), path)));
  edit(*model.mutable_meta_graphs(0));
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, model.SerializeAsString()).ok());
}

// Adds a node with inputs "a, b" and no attributes.
inline void AddTestNode(tensorflow::MetaGraphDef& meta_graph, const std::string& name,
                        const std::string& op, const std::vector<std::string>& inputs) {
  tensorflow::NodeDef* const node = meta_graph.mutable_graph_def()->add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_TEST_MODELS_H_
