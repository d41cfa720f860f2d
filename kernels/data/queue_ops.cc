// The ops on queues.
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/data/queue.h"

namespace tandem::data {
namespace {

absl::StatusOr<RefPtr<FifoQueue>> QueueInput(KernelContext& c) {
  const Tensor& tensor = c.input(0);
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument("the handle of a queue must be a scalar; it has shape ",
                                   tensor.shape().DebugString());
  }
  const ResourceHandle& handle = tensor.ScalarValue<ResourceHandle>();
  if (handle.empty()) return errors::InvalidArgument("the handle of the queue is empty");
  const ResourceHandle::Description& description = handle.description();
  if (!description.resource) {
    return c.device().resources->Lookup<FifoQueue>(description.container, description.name);
  }
  if (description.resource->is_forgotten()) {
    return errors::NotFound("queue '", handle.DebugString(), "' has been destroyed");
  }
  FifoQueue* const queue = dynamic_cast<FifoQueue*>(description.resource.get());
  if (queue == nullptr) {
    return errors::InvalidArgument("resource '", handle.DebugString(), "' is a ",
                                   description.resource->DebugString(), ", not a queue");
  }
  return RefPtr<FifoQueue>::Share(queue);
}

class QueueKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    types_ = init.Attr<std::vector<DataType>>("component_types");
    shapes_ = init.Attr<std::vector<PartialShape>>("shapes");
    if (!shapes_.empty() && shapes_.size() != types_.size()) {
      return errors::InvalidArgument("a queue of ", types_.size(), " components has ",
                                     shapes_.size(),
                                     " shapes; there must be one for each, or none");
    }
    capacity_ = init.Attr<int64_t>("capacity");
    container_ = init.Attr<std::string>("container");
    if (container_.empty()) container_ = ResourceManager::kDefaultContainer;
    name_ = init.Attr<std::string>("shared_name");
    if (name_.empty()) {
      // Nobody else's: it belongs to this node of this session, and ends with it.
      static std::atomic<int64_t> next{0};
      name_ = absl::StrCat("_", next.fetch_add(1), "_", init.node_name());
      private_to_ = init.device().resources;
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    MutexLock lock(mu_);
    if (!handle_.is_valid() || queue_->is_forgotten()) TANDEM_RETURN_IF_ERROR(MakeHandle(c));
    c.SetOutput(0, handle_);
    return absl::OkStatus();
  }

  ~QueueKernel() override {
    MutexLock lock(mu_);
    // Somebody may have cleared the container before; then there is nothing to forget.
    if (private_to_ != nullptr && queue_) (void)private_to_->Delete<FifoQueue>(container_, name_);
  }

 private:
  absl::Status MakeHandle(KernelContext& c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    TANDEM_ASSIGN_OR_RETURN(RefPtr<FifoQueue> queue,
                            c.device().resources->LookupOrCreate<FifoQueue>(
                                container_, name_, [this]() -> absl::StatusOr<RefPtr<FifoQueue>> {
                                  return MakeRef<FifoQueue>(name_, types_, shapes_, capacity_);
                                }));
    if (queue->types() != types_ || queue->shapes() != shapes_ || queue->capacity() != capacity_) {
      return errors::InvalidArgument("the queue '", name_, "' exists already, as a ",
                                     queue->DebugString(), " of capacity ", queue->capacity(),
                                     ": its types, shapes or capacity are not those of this node; "
                                     "use another shared_name");
    }
    auto description = MakeRef<ResourceHandle::Description>();
    description->device = c.device().name;
    description->container = container_;
    description->name = name_;
    description->type_name = "tandem::FifoQueue";
    description->resource = queue;
    queue_ = std::move(queue);
    handle_ = Tensor::Scalar(
        ResourceHandle(RefPtr<const ResourceHandle::Description>(std::move(description))));
    return absl::OkStatus();
  }

  std::vector<DataType> types_;
  std::vector<PartialShape> shapes_;
  int64_t capacity_ = -1;
  std::string container_;
  std::string name_;
  ResourceManager* private_to_ = nullptr;  // Null: the queue has a name of its own.

  Mutex mu_;
  RefPtr<FifoQueue> queue_ ABSL_GUARDED_BY(mu_);
  Tensor handle_ ABSL_GUARDED_BY(mu_);
};

absl::Status CheckTimeout(KernelInit& init) {
  const int64_t timeout = init.Attr<int64_t>("timeout_ms");
  if (timeout == -1) return absl::OkStatus();
  return errors::InvalidArgument("timeout_ms is ", timeout,
                                 "; queues know none but -1: give the run a timeout instead");
}

class EnqueueKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) { return CheckTimeout(init); }

  void Start(KernelContext& c, Done done) override {
    absl::StatusOr<RefPtr<FifoQueue>> queue = QueueInput(c);
    if (!queue.ok()) {
      done(queue.status());
      return;
    }
    FifoQueue::Element element;
    for (int i = 1; i < c.num_inputs(); ++i) element.push_back(c.TakeInput(i));
    (*queue)->Enqueue(std::move(element), c.step().cancellation,
                      [done = std::move(done)](absl::StatusOr<FifoQueue::Element> none) mutable {
                        done(none.status());
                      });
  }
};

class DequeueKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    types_ = init.Attr<std::vector<DataType>>("component_types");
    return CheckTimeout(init);
  }

  void Start(KernelContext& c, Done done) override {
    absl::StatusOr<RefPtr<FifoQueue>> queue = QueueInput(c);
    if (!queue.ok()) {
      done(queue.status());
      return;
    }
    (*queue)->Dequeue(
        types_, c.step().cancellation,
        [&c, done = std::move(done)](absl::StatusOr<FifoQueue::Element> element) mutable {
          if (element.ok()) {
            for (int i = 0; i < c.num_outputs(); ++i) {
              Tensor& component = (*element)[static_cast<size_t>(i)];
              component.Localize();
              c.SetOutput(i, std::move(component));
            }
          }
          done(element.status());
        });
  }

 private:
  std::vector<DataType> types_;
};

class CloseKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    cancels_ = init.Attr<bool>("cancel_pending_enqueues");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(RefPtr<FifoQueue> queue, QueueInput(c));
    return queue->Close(cancels_);
  }

 private:
  bool cancels_ = false;
};

absl::Status Size(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<FifoQueue> queue, QueueInput(c));
  c.SetOutput(0, Tensor::Scalar<int32_t>(static_cast<int32_t>(queue->size())));
  return absl::OkStatus();
}

TANDEM_OP("FIFOQueueV2")
    .Outputs("handle:resource")
    .Attrs(
        "component_types:list(type)>=1; shapes:list(shape)>=0=[]; capacity:int=-1; "
        "container:string=\"\"; shared_name:string=\"\"")
    .Stateful()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"handle"})
    .Cpu(Make<QueueKernel>());

TANDEM_OP("QueueEnqueueV2")
    .Inputs("handle:resource, components:Tcomponents")
    .Attrs("Tcomponents:list(type)>=1; timeout_ms:int=-1")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"handle"})
    .Cpu(Make<EnqueueKernel>());

TANDEM_OP("QueueDequeueV2")
    .Inputs("handle:resource")
    .Outputs("components:component_types")
    .Attrs("component_types:list(type)>=1; timeout_ms:int=-1")
    .Stateful()
    .Shape(UnknownShape)
    .HostMemory({"handle"})
    .Cpu(Make<DequeueKernel>());

TANDEM_OP("QueueCloseV2")
    .Inputs("handle:resource")
    .Attrs("cancel_pending_enqueues:bool=False")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"handle"})
    .Cpu(Make<CloseKernel>());

TANDEM_OP("QueueSizeV2")
    .Inputs("handle:resource")
    .Outputs("size:int32")
    .Stateful()
    .Shape(ScalarShape)
    .HostMemory({"handle", "size"})
    .Cpu(Function(Size));

}  // namespace
}  // namespace tandem::data
