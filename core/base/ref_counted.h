// Intrusive reference counting for objects that are shared on hot paths (buffers, resources).
#ifndef TANDEM_CORE_BASE_REF_COUNTED_H_
#define TANDEM_CORE_BASE_REF_COUNTED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tandem {

// Begins with one reference, owned by whoever called new. Ref and Unref may be called from any
// thread; the last Unref destroys the object.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void Ref() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() const {
    // The sole owner needs no read-modify-write: nobody else can be adding a reference.
    if (count_.load(std::memory_order_acquire) == 1 ||
        count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }
  // True when the caller holds the only reference, so that nobody else can see a change.
  bool RefCountIsOne() const { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  virtual ~RefCounted() = default;

 private:
  mutable std::atomic<int32_t> count_{1};
};

// Owns one reference of a RefCounted object, or is null.
template <typename T>
class RefPtr {
 public:
  RefPtr() = default;
  RefPtr(std::nullptr_t) {}  // NOLINT: null converts as for any smart pointer.
  // Takes over the caller's reference.
  explicit RefPtr(T* object) : object_(object) {}
  RefPtr(const RefPtr& other) : object_(other.object_) {
    if (object_ != nullptr) object_->Ref();
  }
  RefPtr(RefPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U>
  RefPtr(RefPtr<U> other) : object_(other.release()) {}  // NOLINT: upcast, as in shared_ptr.
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~RefPtr() {
    if (object_ != nullptr) object_->Unref();
  }

  // Adds a reference of its own to an object that is owned elsewhere.
  static RefPtr Share(T* object) {
    if (object != nullptr) object->Ref();
    return RefPtr(object);
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // Gives the reference to the caller.
  T* release() { return std::exchange(object_, nullptr); }
  void reset() { *this = RefPtr(); }

  friend bool operator==(const RefPtr& a, const RefPtr& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
RefPtr<T> MakeRef(Args&&... args) {
  return RefPtr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_REF_COUNTED_H_
