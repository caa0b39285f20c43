#pragma once

// Keeps what a request needs to be authenticated fresh: token files are read again every 60 s (the
// kubelet rotates a projected token at 80 % of its life), CA and client certificate every 5 min,
// exec plugins run when what they gave expires. Never fails a request by itself: the last good
// value stays in force when a file is unreadable or empty, and the reason is logged once. Sources:
// client-go transport/token_source.go, ca_rotation.go, cert_rotation.go, exec.go.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "port/http.h"

namespace moonfence::kube {

class Credentials {
 public:
  using Ready = std::function<void(Result<std::vector<port::Header>>)>;
  virtual ~Credentials() = default;

  // The headers that authenticate a request. `ready` is called in this turn when they are at hand
  // (the normal case, no allocation beyond the headers) or later when a plugin has to run first.
  virtual void headers(Ready ready) = 0;

  // The server answered 401 to a request whose headers were handed out at `asked`. Drops what is
  // older than that; true when a repeat of the request makes sense because something new is at hand
  // or can be had.
  virtual bool refused(Moment asked) = 0;
};

}  // namespace moonfence::kube
