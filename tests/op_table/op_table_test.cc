// Every op of the first tier of TensorFlow's table is registered. It and those of other tiers that
// are registered have the same signature, flags and, where TensorFlow has one, a gradient. So a
// registration that the linker dropped is noticed, too.
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/op/registry.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

struct Row {
  std::string inputs;
  std::string outputs;
  std::string attrs;
  std::string gradient;  // yes, none or -
  bool is_stateful = false;
};

enum class Tiers { kFirst, kAll };

// The table, by op.
std::map<std::string, Row> ReadTable(Tiers tiers) {
  std::map<std::string, Row> rows;
  std::ifstream file("tests/op_table/ops.tsv");
  EXPECT_TRUE(file.is_open());
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> columns = absl::StrSplit(line, '\t');
    if (columns.size() != 8 || columns[0] == "tier") continue;
    if (tiers == Tiers::kFirst && columns[0] != "1") continue;
    // A default that is a tab would end its column.
    const std::string attrs = absl::StrReplaceAll(columns[4], {{"\\t", "\t"}});
    rows[columns[1]] = {columns[2], columns[3], attrs, columns[6], columns[7] == "stateful"};
  }
  return rows;
}

// Ops that are known to be missing; an op that exists may not stand there.
std::set<std::string> ReadNotYet() {
  std::set<std::string> ops;
  std::ifstream file("tests/golden/not_yet.txt");
  EXPECT_TRUE(file.is_open());
  std::string line;
  while (std::getline(file, line)) {
    const std::string text = line.substr(0, line.find('#'));
    std::istringstream words(text);
    std::string word;
    if (words >> word) ops.insert(word);
  }
  return ops;
}

std::string Args(const std::vector<ArgDef>& args) {
  std::vector<std::string> texts;
  for (const ArgDef& arg : args) {
    texts.push_back(absl::StrCat(arg.name, ":", arg.is_ref ? "ref " : "", arg.number_attr,
                                 arg.number_attr.empty() ? "" : "*",
                                 !arg.type_attr.empty()        ? arg.type_attr
                                 : !arg.type_list_attr.empty() ? arg.type_list_attr
                                                               : DataTypeName(arg.type)));
  }
  return absl::StrJoin(texts, ", ");
}

std::string Attr(const AttrDef& attr) {
  std::set<std::string> allowed(attr.allowed_strings.begin(), attr.allowed_strings.end());
  for (const DataType type : attr.allowed_types) allowed.insert(DataTypeName(type));
  return absl::StrCat(attr.name, ":", AttrKindName(attr.kind), "{", absl::StrJoin(allowed, ","),
                      "}", attr.has_minimum ? absl::StrCat(">=", attr.minimum) : "",
                      attr.has_default ? absl::StrCat("=", attr.default_value.DebugString()) : "");
}

// Attributes in the order of their names: the order of the table is not part of the interface.
std::string Attrs(const std::vector<AttrDef>& attrs) {
  std::set<std::string> texts;
  for (const AttrDef& attr : attrs) texts.insert(Attr(attr));
  return absl::StrJoin(texts, "; ");
}

TEST(OpTable, HasTheSizeThatItShouldHave) { EXPECT_EQ(ReadTable(Tiers::kFirst).size(), 277u); }

TEST(OpTable, EveryOpIsRegisteredOrSaidToBeMissing) {
  const std::set<std::string> not_yet = ReadNotYet();
  for (const auto& [name, row] : ReadTable(Tiers::kFirst)) {
    const bool exists = OpRegistry::Global().Find(name) != nullptr;
    EXPECT_NE(exists, not_yet.count(name) == 1)
        << name << (exists ? " exists, and is said to be missing" : " is missing");
  }
}

TEST(OpTable, SignaturesAreTensorFlows) {
  for (const auto& [name, row] : ReadTable(Tiers::kAll)) {
    const OpDef* op = OpRegistry::Global().Find(name);
    if (op == nullptr) continue;  // See above.
    const auto attrs = ParseAttrs(row.attrs);
    ASSERT_TRUE(attrs.ok()) << name << ": " << attrs.status();
    const auto inputs = ParseArgs(row.inputs, *attrs);
    ASSERT_TRUE(inputs.ok()) << name << ": " << inputs.status();
    const auto outputs = ParseArgs(row.outputs, *attrs);
    ASSERT_TRUE(outputs.ok()) << name << ": " << outputs.status();
    EXPECT_EQ(Args(op->inputs), Args(*inputs)) << name;
    EXPECT_EQ(Args(op->outputs), Args(*outputs)) << name;
    EXPECT_EQ(Attrs(op->attrs), Attrs(*attrs)) << name;
    EXPECT_EQ(op->is_stateful, row.is_stateful) << name;
  }
}

// What graphs with a Saver hold.
TEST(OpTable, TheOpsOfCheckpointsAreRegistered) {
  for (const char* name :
       {"SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename", "ShardedFilespec",
        "StringJoin", "StaticRegexFullMatch", "DisableCopyOnRead"}) {
    EXPECT_NE(OpRegistry::Global().Find(name), nullptr) << name;
  }
}

// What graphs with a FileWriter hold.
TEST(OpTable, TheOpsOfSummariesAreRegistered) {
  for (const char* name : {"ScalarSummary",         "HistogramSummary",   "ImageSummary",
                           "MergeSummary",          "TensorSummary",      "TensorSummaryV2",
                           "AudioSummaryV2",        "SummaryWriter",      "CreateSummaryFileWriter",
                           "CreateSummaryDbWriter", "FlushSummaryWriter", "CloseSummaryWriter",
                           "WriteSummary",          "WriteScalarSummary", "WriteHistogramSummary",
                           "WriteImageSummary",     "WriteAudioSummary",  "WriteGraphSummary",
                           "WriteRawProtoSummary",  "ImportEvent"}) {
    EXPECT_NE(OpRegistry::Global().Find(name), nullptr) << name;
  }
}

// What models hold that take text, count, or look words up.
TEST(OpTable, TheOpsOfTextLayersAreRegistered) {
  for (const char* name : {
           "AnonymousHashTable",
           "AnonymousMutableHashTable",
           "AnonymousMutableHashTableOfTensors",
           "AsString",
           "Bincount",
           "Bucketize",
           "DenseBincount",
           "HashTable",
           "HashTableV2",
           "InitializeTable",
           "InitializeTableFromTextFile",
           "InitializeTableFromTextFileV2",
           "InitializeTableV2",
           "LookupTableExport",
           "LookupTableExportV2",
           "LookupTableFind",
           "LookupTableFindV2",
           "LookupTableImport",
           "LookupTableImportV2",
           "LookupTableInsert",
           "LookupTableInsertV2",
           "LookupTableRemoveV2",
           "LookupTableSize",
           "LookupTableSizeV2",
           "MutableHashTable",
           "MutableHashTableOfTensors",
           "MutableHashTableOfTensorsV2",
           "MutableHashTableV2",
           "RaggedBincount",
           "RaggedGather",
           "RaggedRange",
           "RaggedTensorToSparse",
           "RaggedTensorToTensor",
           "ReadFile",
           "ReduceJoin",
           "RegexFullMatch",
           "RegexReplace",
           "SparseBincount",
           "SparseToDense",
           "StaticRegexReplace",
           "StringFormat",
           "StringLength",
           "StringLower",
           "StringNGrams",
           "StringSplit",
           "StringSplitV2",
           "StringStrip",
           "StringToHashBucket",
           "StringToHashBucketFast",
           "StringToHashBucketStrong",
           "StringToNumber",
           "StringUpper",
           "Substr",
           "UnicodeDecode",
           "UnicodeDecodeWithOffsets",
           "UnicodeEncode",
           "UnicodeTranscode",
           "UnsortedSegmentJoin",
           "WriteFile",
       }) {
    EXPECT_NE(OpRegistry::Global().Find(name), nullptr) << name;
  }
}

TEST(OpTable, DifferentiableOpsHaveGradients) {
  for (const auto& [name, row] : ReadTable(Tiers::kAll)) {
    const OpDef* op = OpRegistry::Global().Find(name);
    if (op == nullptr || row.gradient == "-") continue;
    EXPECT_EQ(op->differentiability, row.gradient == "yes" ? Differentiability::kDifferentiable
                                                           : Differentiability::kNotDifferentiable)
        << name;
  }
}

}  // namespace
}  // namespace tandem
