#pragma once

// Reads one object by its name. That it does not exist is believed when two different reads say so:
// a 404 may be that of a proxy or a load balancer, or of a server that is only starting; a list of
// the objects of that name, which the server reads by its key, is empty by the server's own word.

#include <functional>
#include <string>

#include "kube/wire/caller.h"

namespace moonfence::kube {

// `request`: a GET of the object, whose path ends with its name. NotFound: neither shows it. A 404
// that the list does not bear out is an error like that of a server that is away. `looks` is called
// when the list was sent, in the middle of the other answer: what it says is younger than the call.
[[nodiscard]] CallHandle read_named(Caller& caller, ApiRequest request, std::string name,
                                    std::function<void(Result<ApiReply>)> done,
                                    std::function<void()> looks = nullptr);

}  // namespace moonfence::kube
