// _Send and _Recv (and the Host forms, which are the same here): one end each of an edge that
// leaves a task, or of a feed or fetch whose value travels with the request that runs the step.
//
// Dead values are sent as such: the receiver's output is then dead, too.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/kernel/rendezvous.h"
#include "core/kernel/rendezvous_key.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

// What both kernels need: their end of the edge.
class EdgeEnd {
 public:
  void Init(KernelInit& init) {
    RendezvousKey key;
    key.source_device = init.Attr<std::string>("send_device");
    key.source_incarnation = static_cast<uint64_t>(init.Attr<int64_t>("send_device_incarnation"));
    key.destination_device = init.Attr<std::string>("recv_device");
    key.edge = init.Attr<std::string>("tensor_name");
    prefix_ = key.Prefix();
  }

  std::string Key(const KernelContext& c) const {
    return RendezvousKey::Join(prefix_, c.frame(), c.frame_iteration());
  }

  static absl::StatusOr<Rendezvous*> RendezvousOf(const KernelContext& c) {
    if (c.step().rendezvous == nullptr) {
      return errors::FailedPrecondition(
          "the step has no rendezvous: it was run by itself, not as part of a step of several "
          "tasks");
    }
    return c.step().rendezvous;
  }

 private:
  std::string prefix_;
};

class SendKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    end_.Init(init);
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    const absl::StatusOr<Rendezvous*> rendezvous = EdgeEnd::RendezvousOf(c);
    if (!rendezvous.ok()) {
      done(rendezvous.status());
      return;
    }
    Rendezvous::Entry entry;
    entry.is_dead = c.input_slot(0).state == Slot::State::kDead;
    if (!entry.is_dead) entry.value = c.TakeInput(0);
    done((*rendezvous)->Send(end_.Key(c), std::move(entry)));
  }

 private:
  EdgeEnd end_;
};

class RecvKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    end_.Init(init);
    const auto alive = init.attrs().find("_alive");
    if (alive != init.attrs().end() && alive->second.Get<bool>() != nullptr) {
      is_alive_ = *alive->second.Get<bool>();
    }
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    const absl::StatusOr<Rendezvous*> rendezvous = EdgeEnd::RendezvousOf(c);
    if (!rendezvous.ok()) {
      done(rendezvous.status());
      return;
    }
    (*rendezvous)
        ->Receive(
            end_.Key(c), c.step().cancellation,
            [this, &c, done = std::move(done)](absl::StatusOr<Rendezvous::Entry> entry) mutable {
              done(entry.ok() ? Take(c, *std::move(entry)) : entry.status());
            });
  }

 private:
  absl::Status Take(KernelContext& c, Rendezvous::Entry entry) const {
    if (entry.is_dead) {
      if (is_alive_) {
        return errors::InvalidArgument(
            "received a dead value, although its attribute _alive says that none will come");
      }
      c.SetOutputDead(0);
      return absl::OkStatus();
    }
    if (entry.value.dtype() != c.output_dtype(0)) {
      return errors::InvalidArgument("received a ", DataTypeName(entry.value.dtype()), "; a ",
                                     DataTypeName(c.output_dtype(0)), " was expected");
    }
    entry.value.Localize();
    c.SetOutput(0, std::move(entry.value));
    return absl::OkStatus();
  }

  EdgeEnd end_;
  bool is_alive_ = false;  // The plan knows nothing of dead values.
};

constexpr char kSendAttrs[] =
    "T:type; tensor_name:string; send_device:string; send_device_incarnation:int; "
    "recv_device:string; client_terminated:bool=false";
constexpr char kRecvAttrs[] =
    "tensor_type:type; tensor_name:string; send_device:string; send_device_incarnation:int; "
    "recv_device:string; client_terminated:bool=false";

TANDEM_OP("_Send")
    .Inputs("tensor:T")
    .Attrs(kSendAttrs)
    .Stateful()
    .Cheap()
    .Shape(NoOutputs)
    .HostMemory({"tensor"})
    .Cpu(Make<SendKernel>());

TANDEM_OP("_Recv")
    .Outputs("tensor:tensor_type")
    .Attrs(kRecvAttrs)
    .Stateful()
    .Cheap()
    .Shape(UnknownShape)
    .HostMemory({"tensor"})
    .Cpu(Make<RecvKernel>());

TANDEM_OP("_HostSend")
    .Inputs("tensor:T")
    .Attrs(kSendAttrs)
    .Stateful()
    .Cheap()
    .Shape(NoOutputs)
    .HostMemory({"tensor"})
    .Cpu(Make<SendKernel>());

TANDEM_OP("_HostRecv")
    .Outputs("tensor:tensor_type")
    .Attrs(kRecvAttrs)
    .Stateful()
    .Cheap()
    .Shape(UnknownShape)
    .HostMemory({"tensor"})
    .Cpu(Make<RecvKernel>());

}  // namespace
}  // namespace tandem
