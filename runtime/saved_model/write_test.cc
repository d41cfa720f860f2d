// What is written must be loaded again with equal results, and be there wholly or not at all.
// TensorFlow's tools are asked in tests/clients.
#include "runtime/saved_model/write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/io/testing/faulty_file_system.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/saved_model/test_models.h"

namespace tandem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Output Handle(const Scope& scope, const std::string& name, const Tensor& value) {
  return scope.WithOpName(name).Call(
      "VarHandleOp", {},
      {{"dtype", value.dtype()}, {"shape", value.shape()}, {"shared_name", name}});
}

Output Read(const Scope& scope, const Output& handle, DataType dtype) {
  return scope.Call("ReadVariableOp", {handle}, {{"dtype", dtype}});
}

// y = square(x · kernel + bias), and a second signature that gives a path.
class SmallModel {
 public:
  SmallModel() {
    const Scope body = Scope::NewRoot();
    const Output arg = FunctionArg(body.WithOpName("x"), 0, kFloat32);
    FunctionResult(body.WithOpName("y"), 0, body.Call("Mul", {arg, arg}));
    EXPECT_TRUE(DefineFunction("square", *body.graph(), {}, &scope_.graph()->functions()).ok());

    const Output x = scope_.WithOpName("images").Call(
        "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1, 2})}});
    const Output kernel = Handle(scope_, "dense/kernel", kernel_);
    const Output bias = Handle(scope_, "dense/bias", bias_);
    const Output sum = scope_.Call(
        "AddV2",
        {scope_.Call("MatMul", {x, Read(scope_, kernel, kFloat32)}), Read(scope_, bias, kFloat32)});
    scope_.WithOpName("squared").Call("PartitionedCall", {sum},
                                      {{"f", FunctionRef{"square", {}}},
                                       {"Tin", std::vector<DataType>{kFloat32}},
                                       {"Tout", std::vector<DataType>{kFloat32}}});
    scope_.WithOpName("path").Call(
        "Const", {}, {{"dtype", kString}, {"value", Tensor::Scalar<std::string>("")}});
    EXPECT_TRUE(scope_.ok()) << scope_.status();

    contents_.graph = scope_.graph();
    contents_.signatures = {
        {.name = "serving_default",
         .inputs = {{.name = "x", .tensor = "images"}},
         .outputs = {{.name = "y", .tensor = "squared"}, {.name = "x again", .tensor = "images"}}},
        {.name = "where", .inputs = {}, .outputs = {{.name = "path", .tensor = "path"}}}};
    contents_.variables = {
        {.name = "dense/kernel", .handle = "dense/kernel", .value = kernel_},
        {.name = "dense/bias", .handle = "dense/bias", .value = bias_, .trainable = false}};
    contents_.assets = {{.path = TestModel("tf2/assets/greeting.txt"), .tensor = "path"}};
  }

  Scope& scope() { return scope_; }
  SavedModelContents& contents() { return contents_; }

 private:
  Scope scope_ = Scope::NewRoot();
  SavedModelContents contents_;
  const Tensor kernel_ = Tensor::FromValues<float>({2, 1}, {1, 2});
  const Tensor bias_ = Tensor::Vector<float>({-1});
};

void ExpectWorks(const std::string& folder) {
  const auto model = SavedModel::Load(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto outputs =
      (*model)->signature().Run({{"x", Tensor::FromValues<float>({2, 2}, {1, 1, 2, 3})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->at("y").shape(), Shape({2, 1}));
  EXPECT_THAT(outputs->at("y").Elements<float>(), ElementsAre(4, 49));
  EXPECT_THAT(outputs->at("x again").Elements<float>(), ElementsAre(1, 1, 2, 3));
  const auto path = (*model)->signature("where").Run({});
  ASSERT_TRUE(path.ok()) << path.status();
  const std::string& asset = path->at("path").Elements<std::string>()[0];
  EXPECT_EQ(asset, JoinPath(folder, "assets/greeting.txt"));
  EXPECT_EQ(*ReadFile(PosixFileSystem(), asset), "hello\n");
}

// What is in the folder of tests besides `folder`: leftovers.
std::vector<std::string> Beside(const std::string& folder) {
  std::vector<std::string> names = *PosixFileSystem()->ListDirectory(DirectoryOf(folder));
  names.erase(std::find(names.begin(), names.end(), FileNameOf(folder)));
  return names;
}

TEST(WriteSavedModelTest, WhatIsWrittenIsLoaded) {
  const std::string folder = JoinPath(TestFolder(), "model");
  SmallModel model;
  const absl::Status status = WriteSavedModel(folder, model.contents());
  ASSERT_TRUE(status.ok()) << status;
  ExpectWorks(folder);
  EXPECT_THAT(Beside(folder), IsEmpty());

  const auto loaded = SavedModel::Load(folder);
  const SignatureInfo& info = *(*loaded)->signature().info();
  EXPECT_EQ(info.method, "tensorflow/serving/predict");
  EXPECT_EQ(info.inputs[0].shape, PartialShape({-1, 2}));
  EXPECT_EQ(info.outputs[0].name, "x again");
  EXPECT_EQ(info.outputs[0].shape, PartialShape({-1, 2}));
  EXPECT_THAT((*loaded)->ReadVariable("dense/bias")->Elements<float>(), ElementsAre(-1));
}

TEST(WriteSavedModelTest, VariablesAreAtThePathsOfTheirObjects) {
  const std::string folder = JoinPath(TestFolder(), "model");
  SmallModel model;
  ASSERT_TRUE(WriteSavedModel(folder, model.contents()).ok());
  const auto checkpoint = Checkpoint::Open(VariablesPrefix(folder));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->Names(), ElementsAre("dense/bias/.ATTRIBUTES/VARIABLE_VALUE",
                                                  "dense/kernel/.ATTRIBUTES/VARIABLE_VALUE"));
  ASSERT_NE((*checkpoint)->objects(), nullptr);
  EXPECT_EQ(*(*checkpoint)->objects()->Find("dense/kernel"),
            "dense/kernel/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_TRUE((*checkpoint)->Read("dense/kernel").ok());
}

TEST(WriteSavedModelTest, TheFilesAreTheSameEveryTime) {
  const std::string folder = TestFolder();
  SmallModel model;
  for (const char* const name : {"a", "b"}) {
    ASSERT_TRUE(WriteSavedModel(JoinPath(folder, name), model.contents()).ok());
  }
  for (const char* const file : {"saved_model.pb", "variables/variables.index"}) {
    EXPECT_EQ(*ReadFile(PosixFileSystem(), JoinPath(JoinPath(folder, "a"), file)),
              *ReadFile(PosixFileSystem(), JoinPath(JoinPath(folder, "b"), file)));
  }
}

TEST(WriteSavedModelTest, AModelThatIsThereIsReplacedWhenAskedFor) {
  const std::string folder = JoinPath(TestFolder(), "model");
  SmallModel model;
  ASSERT_TRUE(PosixFileSystem()->MakeDirectories(folder).ok());
  ASSERT_TRUE(WriteSavedModel(folder, model.contents()).ok());  // An empty folder is none.
  const absl::Status status = WriteSavedModel(folder, model.contents());
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(folder));
  const std::string old = JoinPath(folder, "fingerprint.pb");
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), old, "x").ok());
  const absl::Status replaced =
      WriteSavedModel(folder + "/", model.contents(), {.overwrite = true});
  ASSERT_TRUE(replaced.ok()) << replaced;
  ExpectWorks(folder);
  EXPECT_FALSE(PosixFileSystem()->Stat(old).ok());
  EXPECT_THAT(Beside(folder), IsEmpty());
}

// What is refused must be as it was, with nothing beside it.
void ExpectRefused(const std::string& folder, absl::StatusCode code, const std::string& message) {
  SmallModel model;
  const auto before = *PosixFileSystem()->ListDirectory(folder);
  for (const absl::Status& status : {WriteSavedModel(folder, model.contents(), {.overwrite = true}),
                                     CheckSavedModelFolder(folder, {.overwrite = true})}) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(folder), HasSubstr(message)));
  }
  EXPECT_EQ(*PosixFileSystem()->ListDirectory(folder), before);
}

TEST(WriteSavedModelTest, OnlyAModelIsReplaced) {
  const std::string folder = JoinPath(TestFolder(), "model");
  const auto add = [&](const std::string& name) {
    const std::string path = JoinPath(folder, name);
    EXPECT_TRUE(PosixFileSystem()->MakeDirectories(DirectoryOf(path)).ok());
    EXPECT_TRUE(WriteFileAtomically(PosixFileSystem(), path, "mine").ok());
  };
  add("assets/photo.png");  // That alone is no model, though a model might have it.
  ExpectRefused(folder, absl::StatusCode::kFailedPrecondition, "('assets' but no file saved_model");
  std::filesystem::create_directory(JoinPath(folder, "saved_model.pb"));
  ExpectRefused(folder, absl::StatusCode::kFailedPrecondition, "('assets' but no file saved_model");
  std::filesystem::remove_all(folder);
  SmallModel model;
  ASSERT_TRUE(WriteSavedModel(folder, model.contents()).ok());
  add("ckpt-4.index");
  add("zebra");
  ExpectRefused(folder, absl::StatusCode::kFailedPrecondition, "('ckpt-4.index')");
  ExpectWorks(folder);
  EXPECT_THAT(Beside(folder), IsEmpty());
}

TEST(WriteSavedModelTest, LinksAndWhatTheyLeadToStay) {
  const std::string folder = TestFolder();
  const std::string version = JoinPath(folder, "3");
  const std::string current = JoinPath(folder, "current");
  SmallModel model;
  ASSERT_TRUE(WriteSavedModel(version, model.contents()).ok());
  std::filesystem::create_directory_symlink("3", current);
  ExpectRefused(current, absl::StatusCode::kFailedPrecondition, "symbolic link");
  ExpectWorks(version);
  EXPECT_TRUE(std::filesystem::is_symlink(current));
  EXPECT_THAT(*PosixFileSystem()->ListDirectory(folder), ElementsAre("3", "current"));

  // Variables that several models share are not removed with one of them.
  const std::string shared = JoinPath(folder, "shared");
  std::filesystem::rename(JoinPath(version, "variables"), shared);
  std::filesystem::create_directory_symlink("../shared", JoinPath(version, "variables"));
  const absl::Status status = WriteSavedModel(version, model.contents(), {.overwrite = true});
  ASSERT_TRUE(status.ok()) << status;
  ExpectWorks(version);
  EXPECT_TRUE(PosixFileSystem()->Stat(JoinPath(shared, "variables.index")).ok());
}

TEST(WriteSavedModelTest, FoldersWithoutANameAreRefused) {
  for (const char* const folder : {"", ".", "..", "/", "a/.", "a/../"}) {
    SmallModel model;
    for (const absl::Status& status :
         {WriteSavedModel(folder, model.contents(), {.overwrite = true}),
          CheckSavedModelFolder(folder)}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(status.message(), HasSubstr("name a folder"));
    }
  }
}

TEST(WriteSavedModelTest, WhatCannotBeWrittenIsFoundBeforehand) {
  FaultyFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/served").ok());
  EXPECT_TRUE(CheckSavedModelFolder("/served/a/b/", {.files = &files}).ok());
  EXPECT_THAT(*files.ListDirectory("/served"), IsEmpty());
  files.FailAt(0, errors::PermissionDenied("read-only"));
  const absl::Status status = CheckSavedModelFolder("/served/a/b", {.files = &files});
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("/served/a/b"));

  const std::string file = JoinPath(TestFolder(), "file");
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), file, "x").ok());
  EXPECT_FALSE(CheckSavedModelFolder(file, {.overwrite = true}).ok());
  EXPECT_FALSE(CheckSavedModelFolder(JoinPath(file, "model")).ok());
}

// Puts a file into a folder at the last moment before it is renamed.
class Intruder : public FaultyFileSystem {
 public:
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (from == "/served/1" && !Stat("/served/1/notes").ok()) {
      SetContents("/served/1/notes", "mine");
    }
    return FaultyFileSystem::Rename(from, to);
  }
};

TEST(WriteSavedModelTest, WhatComesIntoTheFolderMeanwhileStays) {
  SmallModel model;
  model.contents().assets.clear();
  model.contents().signatures.pop_back();
  Intruder files;
  ASSERT_TRUE(files.MakeDirectories("/served").ok());
  ASSERT_TRUE(WriteSavedModel("/served/1", model.contents(), {.files = &files}).ok());
  const absl::Status status =
      WriteSavedModel("/served/1", model.contents(), {.files = &files, .overwrite = true});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("('notes')"));
  EXPECT_THAT(*files.ListDirectory("/served"), ElementsAre("1"));
  EXPECT_THAT(*files.ListDirectory("/served/1"),
              ElementsAre("notes", "saved_model.pb", "variables"));
  EXPECT_EQ(*ReadFile(&files, "/served/1/notes"), "mine");
}

TEST(WriteSavedModelTest, WhatCannotBeWrittenLeavesNothing) {
  const std::string folder = JoinPath(TestFolder(), "model");
  const auto expect_error = [&](const std::string& message,
                                const std::function<void(SmallModel & model)>& spoil) {
    SmallModel model;
    spoil(model);
    const absl::Status status = WriteSavedModel(folder, model.contents());
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(folder), HasSubstr(message)));
    EXPECT_THAT(*PosixFileSystem()->ListDirectory(DirectoryOf(folder)), IsEmpty());
  };
  expect_error("a signature at least", [](SmallModel& m) { m.contents().signatures.clear(); });
  expect_error("'nobody'",
               [](SmallModel& m) { m.contents().signatures[0].outputs[0].tensor = "nobody"; });
  expect_error("twice", [](SmallModel& m) { m.contents().signatures[1].name = "serving_default"; });
  expect_error("two underscores", [](SmallModel& m) { m.contents().signatures[1].name = "__x"; });
  expect_error("the variable 'dense/bias'",
               [](SmallModel& m) { m.contents().variables.pop_back(); });
  expect_error("the placeholder 'images'",
               [](SmallModel& m) { m.contents().signatures[0].inputs.clear(); });
  expect_error("its handle is for float32[1]", [](SmallModel& m) {
    m.contents().variables[1].value = Tensor::Vector<float>({1, 2});
  });
  expect_error("'signatures' cannot be",
               [](SmallModel& m) { m.contents().variables[0].name = "signatures/x"; });
  expect_error("two objects", [](SmallModel& m) { m.contents().variables[0].name = "dense/bias"; });
  expect_error("two objects",
               [](SmallModel& m) { m.contents().variables[0].name = "dense/bias/x"; });
  expect_error("asset", [](SmallModel& m) { m.contents().assets[0].path = "nowhere/at.all"; });
}

TEST(WriteSavedModelTest, OpsOfOurOwnAreRefused) {
  SmallModel model;
  const Scope body = Scope::NewRoot();
  const Output arg = FunctionArg(body.WithOpName("x"), 0, kFloat32);
  const Output copy = body.Call("_TandemCopy", {arg}, {{"to_host", true}});
  FunctionResult(body.WithOpName("y"), 0, copy);
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_TRUE(DefineFunction("ours", *body.graph(), {}, &model.scope().graph()->functions()).ok());
  const Output images(model.scope().graph()->FindNode("images"), 0);
  model.scope().WithOpName("copied").Call("PartitionedCall", {images},
                                          {{"f", FunctionRef{"ours", {}}},
                                           {"Tin", std::vector<DataType>{kFloat32}},
                                           {"Tout", std::vector<DataType>{kFloat32}}});
  ASSERT_TRUE(model.scope().ok()) << model.scope().status();
  model.contents().signatures[0].outputs[0].tensor = "copied";
  const absl::Status status = WriteSavedModel(JoinPath(TestFolder(), "model"), model.contents());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("_TandemCopy"));
}

// Copies a model out of the file system in memory and tries it.
void ExpectWhole(FaultyFileSystem& files, const std::string& folder) {
  const std::string copy = JoinPath(TestFolder(), "copy");
  for (const char* const name :
       {"saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"}) {
    const absl::StatusOr<std::string> contents = ReadFile(&files, JoinPath(folder, name));
    ASSERT_TRUE(contents.ok()) << contents.status();
    const std::string path = JoinPath(copy, name);
    ASSERT_TRUE(PosixFileSystem()->MakeDirectories(DirectoryOf(path)).ok());
    ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, *contents).ok());
  }
  const auto model = SavedModel::Load(copy);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto outputs =
      (*model)->signature().Run({{"x", Tensor::FromValues<float>({1, 2}, {1, 1})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(outputs->at("y").Elements<float>(), ElementsAre(4));
}

TEST(WriteSavedModelTest, AfterACrashTheModelIsWholeOrNotThere) {
  SetLogSink([](LogSeverity, absl::string_view) {});
  SmallModel model;
  model.contents().assets.clear();
  model.contents().signatures.pop_back();
  const std::string folder = "/served/1";
  int64_t effects = 0;
  {
    FaultyFileSystem files;
    ASSERT_TRUE(files.MakeDirectories("/served").ok());
    effects = -files.effects();
    ASSERT_TRUE(WriteSavedModel(folder, model.contents(), {.files = &files}).ok());
    effects += files.effects();
  }
  ASSERT_GT(effects, 10);
  int whole = 0;
  for (int64_t n = 0; n < effects; ++n) {
    for (const auto unsynced :
         {FaultyFileSystem::Unsynced::kKept, FaultyFileSystem::Unsynced::kLost,
          FaultyFileSystem::Unsynced::kMixed}) {
      SCOPED_TRACE(n);
      FaultyFileSystem files;
      ASSERT_TRUE(files.MakeDirectories("/served").ok());
      files.CrashAt(n);
      EXPECT_FALSE(WriteSavedModel(folder, model.contents(), {.files = &files}).ok());
      ASSERT_TRUE(files.fired());
      files.Restart(unsynced, static_cast<uint32_t>(n));
      if (!files.Stat(JoinPath(folder, "saved_model.pb")).ok()) continue;
      ++whole;
      ExpectWhole(files, folder);
    }
  }
  EXPECT_GT(whole, 0);  // A crash after the renaming.
  SetLogSink({});
}

TEST(WriteSavedModelTest, AfterAnErrorNothingIsLeft) {
  SmallModel model;
  model.contents().assets.clear();
  model.contents().signatures.pop_back();
  for (int64_t n = 0;; ++n) {
    FaultyFileSystem files;
    ASSERT_TRUE(files.MakeDirectories("/served").ok());
    files.FailAt(n, errors::ResourceExhausted("no space left"));
    const absl::Status status = WriteSavedModel("/served/1", model.contents(), {.files = &files});
    if (!files.fired()) break;
    SCOPED_TRACE(files.log()[static_cast<size_t>(n) + 1]);
    if (status.ok()) continue;  // It was one that does not matter.
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    const auto left = files.ListDirectory("/served");
    ASSERT_TRUE(left.ok());
    // When only the last sync failed, the model is there.
    if (!left->empty()) {
      EXPECT_THAT(*left, ElementsAre("1"));
    }
  }
}

}  // namespace
}  // namespace tandem
