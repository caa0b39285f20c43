#include "os/system/mailbox.h"

#include <sys/eventfd.h>

#include "base/check.h"

namespace moonfence::os {

Mailbox::Mailbox(Descriptors& descriptors)
    : descriptors_(descriptors), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  MOONFENCE_CHECK(wake_.open());
  descriptors_.watch(wake_.get(), [this] { deliver(); });
}

Mailbox::~Mailbox() {
  close();
  descriptors_.forget(wake_.get());
}

bool Mailbox::post(Call call) {
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->closed || shared_->calls.size() >= kCalls) {
    return false;
  }
  shared_->calls.push_back(std::move(call));
  (void)eventfd_write(wake_.get(), 1);  // full means that it is awake already
  return true;
}

void Mailbox::close() {
  std::vector<Call> dropped;  // ends after the lock
  const std::scoped_lock lock(shared_->mutex);
  dropped.swap(shared_->calls);
  shared_->closed = true;
  shared_->answered.notify_all();
}

void Mailbox::deliver() {
  eventfd_t count = 0;
  (void)eventfd_read(wake_.get(), &count);
  std::vector<Call> calls;
  {
    const std::scoped_lock lock(shared_->mutex);
    calls.swap(shared_->calls);
  }
  for (const Call& call : calls) {
    call();
  }
}

}  // namespace moonfence::os
