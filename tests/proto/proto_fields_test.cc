// The messages of proto/ must be TensorFlow's, field for field: a wrong number or type would not
// fail, it would silently read something else. tensorflow_fields.txt was taken from TensorFlow's
// own descriptors (check_against_tensorflow.py explains its lines); here the generated code is
// described in the same words and compared.

#include <fstream>
#include <set>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"
#include "proto/checkpoint_state.pb.h"
#include "proto/device_attributes.pb.h"
#include "proto/error_codes.pb.h"
#include "proto/event.pb.h"
#include "proto/example.pb.h"
#include "proto/fingerprint.pb.h"
#include "proto/named_tensor.pb.h"
#include "proto/saved_model.pb.h"
#include "proto/saver.pb.h"
#include "proto/server.pb.h"
#include "proto/tensor_bundle.pb.h"
#include "proto/trackable_object_graph.pb.h"

namespace tandem {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

using Lines = std::set<std::string>;

constexpr char kFieldsFile[] = "tests/proto/tensorflow_fields.txt";

std::string TypeOf(const FieldDescriptor& field) {
  if (field.is_map()) {
    const Descriptor& entry = *field.message_type();
    return "map<" + TypeOf(*entry.map_key()) + "," + TypeOf(*entry.map_value()) + ">";
  }
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

std::string CardinalityOf(const FieldDescriptor& field) {
  if (field.is_map()) return "map";
  if (field.is_repeated()) return field.is_packed() ? "packed" : "repeated";
  if (field.real_containing_oneof() != nullptr) {
    return "oneof:" + field.real_containing_oneof()->name();
  }
  return field.has_presence() ? "presence" : "plain";
}

void Describe(const EnumDescriptor& type, Lines& lines) {
  lines.insert("enum " + type.full_name());
  for (int i = 0; i < type.value_count(); ++i) {
    lines.insert("value " + type.full_name() + "." + type.value(i)->name() + " " +
                 std::to_string(type.value(i)->number()));
  }
}

void Describe(const Descriptor& message, Lines& lines) {
  if (message.options().map_entry()) return;
  lines.insert("message " + message.full_name());
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    lines.insert("field " + field.full_name() + " " + std::to_string(field.number()) + " " +
                 TypeOf(field) + " " + CardinalityOf(field));
  }
  for (int i = 0; i < message.nested_type_count(); ++i) Describe(*message.nested_type(i), lines);
  for (int i = 0; i < message.enum_type_count(); ++i) Describe(*message.enum_type(i), lines);
}

// The file and what it imports, as far as it is ours to keep equal.
void Describe(const FileDescriptor& file, Lines& lines) {
  if (file.package() != "tensorflow" && file.package().rfind("tensorflow.", 0) != 0) return;
  for (int i = 0; i < file.message_type_count(); ++i) Describe(*file.message_type(i), lines);
  for (int i = 0; i < file.enum_type_count(); ++i) Describe(*file.enum_type(i), lines);
  for (int i = 0; i < file.dependency_count(); ++i) Describe(*file.dependency(i), lines);
}

// The files that no other file imports lead to all others.
Lines OurLines() {
  Lines lines;
  Describe(*tensorflow::ServerDef::descriptor()->file(), lines);
  Describe(*tensorflow::DeviceAttributes::descriptor()->file(), lines);
  Describe(*tensorflow::NamedTensorProto::descriptor()->file(), lines);
  Describe(*tensorflow::SaverDef::descriptor()->file(), lines);
  Describe(*tensorflow::Event::descriptor()->file(), lines);
  Describe(*tensorflow::SequenceExample::descriptor()->file(), lines);
  Describe(*tensorflow::BundleEntryProto::descriptor()->file(), lines);
  Describe(*tensorflow::CheckpointState::descriptor()->file(), lines);
  Describe(*tensorflow::TrackableObjectGraph::descriptor()->file(), lines);
  Describe(*tensorflow::SavedModel::descriptor()->file(), lines);
  Describe(*tensorflow::FingerprintDef::descriptor()->file(), lines);
  Describe(*tensorflow::error::Code_descriptor()->file(), lines);
  return lines;
}

Lines TensorFlowLines() {
  Lines lines;
  std::ifstream file(kFieldsFile);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.insert(line);
  }
  return lines;
}

std::string Without(const Lines& lines, const Lines& others) {
  std::string result;
  for (const std::string& line : lines) {
    if (others.count(line) == 0) result += "  " + line + "\n";
  }
  return result;
}

TEST(ProtoFieldsTest, EveryFieldOfTensorFlowIsOurs) {
  const Lines expected = TensorFlowLines();
  ASSERT_FALSE(expected.empty()) << "cannot read " << kFieldsFile;
  EXPECT_EQ(Without(expected, OurLines()), "")
      << "TensorFlow has these; ours lack them or differ. A message of a new file is found when "
         "OurLines() knows the file.";
}

TEST(ProtoFieldsTest, EveryFieldOfOursIsTensorFlows) {
  EXPECT_EQ(Without(OurLines(), TensorFlowLines()), "")
      << "ours have these; TensorFlow lacks them or differs. For a new message run "
         "tests/proto/check_against_tensorflow.py --write.";
}

// Spot checks that do not depend on how the two lists are made.
TEST(ProtoFieldsTest, WireBytesAreTheDocumentedOnes) {
  tensorflow::DeviceAttributes device;
  device.set_incarnation(0x0102030405060708);
  EXPECT_EQ(device.SerializeAsString(), std::string("\x31\x08\x07\x06\x05\x04\x03\x02\x01", 9));

  tensorflow::TensorProto tensor;
  tensor.set_dtype(tensorflow::DT_INT64);
  tensor.mutable_tensor_shape()->add_dim()->set_size(2);
  tensor.add_int64_val(5);
  tensor.add_int64_val(6);
  EXPECT_EQ(tensor.SerializeAsString(),
            std::string("\x08\x09\x12\x04\x12\x02\x08\x02\x52\x02\x05\x06"));
}

}  // namespace
}  // namespace tandem
