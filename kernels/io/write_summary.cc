// The ops that write into a summary writer (summary_writer.h), each an event. The values of
// WriteSummary are those of TensorFlow 2, the others' those of TensorFlow 1.
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/file_kernel.h"
#include "kernels/io/summary_kernel.h"
#include "kernels/io/summary_values.h"
#include "kernels/io/summary_writer.h"
#include "proto/graph.pb.h"

namespace tandem::io {
namespace {

using tensorflow::Event;
using tensorflow::Summary;

class WriteKernel : public FileKernel {
 protected:
  absl::Status Work(KernelContext& c) final {
    TANDEM_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, WriterInput(c));
    Event event;
    TANDEM_RETURN_IF_ERROR(Fill(c, event));
    return file->Write(std::move(event));
  }

  virtual absl::Status Fill(KernelContext& c, Event& event) = 0;
};

// Those whose inputs begin with writer, step.
class StepKernel : public WriteKernel {
 protected:
  absl::Status Fill(KernelContext& c, Event& event) final {
    TANDEM_ASSIGN_OR_RETURN(const int64_t step, ScalarNumber<int64_t>(c, 1, "step"));
    event.set_step(step);
    return FillStep(c, event);
  }

  virtual absl::Status FillStep(KernelContext& c, Event& event) = 0;
};

class WriteTensor final : public StepKernel {
  absl::Status FillStep(KernelContext& c, Event& event) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 3, "tag"));
    TANDEM_ASSIGN_OR_RETURN(const std::string metadata, ScalarText(c, 4, "summary_metadata"));
    Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    if (!metadata.empty()) TANDEM_RETURN_IF_ERROR(SetMetadata(tag, metadata, value));
    return SetTensorValue(c.input(2), value);
  }
};

template <typename T>
class WriteScalar final : public StepKernel {
  absl::Status FillStep(KernelContext& c, Event& event) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 2, "tag"));
    if (c.input(3).num_elements() != 1) {
      return errors::InvalidArgument("value must be one number; found the shape ",
                                     c.input(3).shape().DebugString());
    }
    Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(c.input(3).Elements<T>()[0]));
    return absl::OkStatus();
  }
};

class WriteHistogram final : public StepKernel {
  absl::Status FillStep(KernelContext& c, Event& event) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 2, "tag"));
    return AddHistogramValue(tag, c.input(3), *event.mutable_summary());
  }
};

class WriteImages final : public StepKernel {
 public:
  absl::Status Init(KernelInit& init) {
    max_images_ = init.Attr<int64_t>("max_images");
    return absl::OkStatus();
  }

 private:
  absl::Status FillStep(KernelContext& c, Event& event) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 2, "tag"));
    TANDEM_RETURN_IF_ERROR(CheckBadColor(c.input(4)));
    return AddImageValues(tag, c.input(3), max_images_, c.input(4), *event.mutable_summary());
  }

  int64_t max_images_ = 0;
};

class WriteAudio final : public StepKernel {
 public:
  absl::Status Init(KernelInit& init) {
    max_outputs_ = init.Attr<int64_t>("max_outputs");
    return absl::OkStatus();
  }

 private:
  absl::Status FillStep(KernelContext& c, Event& event) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 2, "tag"));
    TANDEM_ASSIGN_OR_RETURN(const float rate, ScalarNumber<float>(c, 4, "sample_rate"));
    return AddAudioValues(tag, c.input(3), max_outputs_, rate, *event.mutable_summary());
  }

  int64_t max_outputs_ = 0;
};

class WriteGraph final : public StepKernel {
  absl::Status FillStep(KernelContext& c, Event& event) override {
    TANDEM_ASSIGN_OR_RETURN(std::string bytes, ScalarText(c, 2, "tensor"));
    if (!tensorflow::GraphDef().ParseFromString(bytes)) {
      return errors::DataLoss("the ", bytes.size(), " bytes of tensor are no GraphDef");
    }
    event.set_graph_def(std::move(bytes));
    return absl::OkStatus();
  }
};

class WriteRawProto final : public StepKernel {
  absl::Status FillStep(KernelContext& c, Event& event) override {
    for (const std::string& bytes : c.input(2).Elements<std::string>()) {
      Summary summary;
      if (!summary.ParseFromString(bytes)) {
        return errors::DataLoss("tensor holds ", bytes.size(), " bytes that are no Summary");
      }
      event.mutable_summary()->MergeFrom(summary);
    }
    return absl::OkStatus();
  }
};

class Import final : public WriteKernel {
  absl::Status Fill(KernelContext& c, Event& event) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string bytes, ScalarText(c, 1, "event"));
    if (event.ParseFromString(bytes)) return absl::OkStatus();
    return errors::DataLoss("the ", bytes.size(), " bytes of event are no Event");
  }
};

TANDEM_OP("WriteSummary")
    .Inputs("writer:resource, step:int64, tensor:T, tag:string, summary_metadata:string")
    .Attrs("T:type")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "step", "tensor", "tag", "summary_metadata"})
    .Cpu(Make<WriteTensor>());

TANDEM_OP("WriteScalarSummary")
    .Inputs("writer:resource, step:int64, tag:string, value:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "step", "tag", "value"})
    .Cpu(ByType<WriteScalar, float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, Bfloat16,
                uint16_t, Float16, uint32_t, uint64_t>("T"));

TANDEM_OP("WriteHistogramSummary")
    .Inputs("writer:resource, step:int64, tag:string, values:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,uint64,"
        "bool}=float32")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "step", "tag", "values"})
    .Cpu(Make<WriteHistogram>());

TANDEM_OP("WriteImageSummary")
    .Inputs("writer:resource, step:int64, tag:string, tensor:T, bad_color:uint8")
    .Attrs("max_images:int>=1=3; T:type{uint8,float64,float32,float16}=float32")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "step", "tag", "tensor", "bad_color"})
    .Cpu(Make<WriteImages>());

TANDEM_OP("WriteAudioSummary")
    .Inputs("writer:resource, step:int64, tag:string, tensor:float32, sample_rate:float32")
    .Attrs("max_outputs:int>=1=3")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "step", "tag", "tensor", "sample_rate"})
    .Cpu(Make<WriteAudio>());

TANDEM_OP("WriteGraphSummary")
    .Inputs("writer:resource, step:int64, tensor:string")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "step", "tensor"})
    .Cpu(Make<WriteGraph>());

TANDEM_OP("WriteRawProtoSummary")
    .Inputs("writer:resource, step:int64, tensor:string")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "step", "tensor"})
    .Cpu(Make<WriteRawProto>());

TANDEM_OP("ImportEvent")
    .Inputs("writer:resource, event:string")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"writer", "event"})
    .Cpu(Make<Import>());

}  // namespace
}  // namespace tandem::io
