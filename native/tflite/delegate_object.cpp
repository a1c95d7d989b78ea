#include "tflite/delegate_object.h"

#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "tflite/buffer_handles.h"
#include "tflite/graph_access.h"

namespace rk3588 {
namespace {

using tflite::Context;
using tflite::Delegate;
using tflite::Status;

using SessionPointer = std::shared_ptr<Session>;

// Guards Delegate::data against a destroy in another thread.
std::mutex g_sessions_mutex;

SessionPointer session_of(const Delegate* delegate) {
  const std::lock_guard<std::mutex> lock(g_sessions_mutex);
  if (delegate->data == nullptr) return nullptr;
  return *static_cast<SessionPointer*>(delegate->data);
}

Status prepare(Context* context, Delegate* delegate) {
  const SessionPointer session = session_of(delegate);
  if (session == nullptr) return Status::kOk;
  return guarded(context, [&] { session->prepare(context, delegate); });
}

Status inert_prepare(Context*, Delegate*) { return Status::kOk; }

// Stands for a delegate that could not be made: refuses every graph and says why.
class RefusingSession : public Session {
 public:
  explicit RefusingSession(std::string text) : text_(std::move(text)) {}
  void prepare(Context*, Delegate*) override { throw std::runtime_error(text_); }

 private:
  std::string text_;
};

}  // namespace

// Owned by nobody on purpose, see the header.
Delegate* make_delegate(SessionPointer session) {
  auto delegate = std::make_unique<Delegate>();
  delegate->prepare = prepare;
  take_buffer_handles(delegate.get());
  delegate->flags = tflite::kAllowDynamicTensors;
  delegate->data = std::make_unique<SessionPointer>(std::move(session)).release();
  return delegate.release();
}

void destroy_delegate(Delegate* delegate) {
  if (delegate == nullptr) return;
  std::unique_ptr<SessionPointer> session;
  {
    const std::lock_guard<std::mutex> lock(g_sessions_mutex);
    session.reset(static_cast<SessionPointer*>(delegate->data));
    delegate->data = nullptr;
    delegate->prepare = inert_prepare;
  }
}

Delegate* refuse_delegate(const std::string& text, tflite::ReportError report) {
  if (report == nullptr) return make_delegate(std::make_shared<RefusingSession>(text));
  report(text.c_str());
  return nullptr;
}

void install_kernels(Context* context, Delegate* delegate, std::vector<PendingKernel> kernels) {
  if (kernels.empty()) return;
  const std::string disorder = plan_disorder(context);
  if (!disorder.empty()) throw std::runtime_error("the nodes are out of order: " + disorder);
  const PendingScope scope(&kernels);
  // One by one: taken together, the runtime would merge those that do not depend on nodes between.
  for (size_t i = 0; i < kernels.size(); ++i) {
    const CArray array = c_array(kernels[i].nodes);  // which the kernel takes
    const Status status = context->replace_node_subsets_with_delegate_kernels(
        context, kernel_registration(), array.get(), delegate);
    if (!scope.error().empty()) throw std::runtime_error(scope.error());
    if (status != Status::kOk) throw std::runtime_error("the runtime refused the partitions");
  }
}

}  // namespace rk3588
