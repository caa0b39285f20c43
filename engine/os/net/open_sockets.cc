#include "os/net/open_sockets.h"

#include <sys/socket.h>
#include <unistd.h>

namespace moonfence::os {
namespace {

std::uint64_t cookie_of(int fd) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

int OpenSockets::open(int family, int type, int protocol) {
  const int fd = socket(family, type | SOCK_CLOEXEC, protocol);
  if (fd >= 0) {
    cookies_[fd] = cookie_of(fd);
  }
  return fd;
}

int OpenSockets::close(int fd) {
  cookies_.erase(fd);
  return ::close(fd);
}

void OpenSockets::shutdown_all() {
  for (const auto& [fd, cookie] : cookies_) {
    if (cookie != 0 && cookie_of(fd) == cookie) {
      shutdown(fd, SHUT_RDWR);
    }
  }
}

}  // namespace moonfence::os
