#include "kube/calls/access.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "kube/text/json.h"

namespace moonfence::kube {

CallHandle ask_access(Caller& caller, const Right& right, std::function<void(Result<bool>)> done) {
  ApiRequest request;
  request.method = port::Method::Post;
  request.path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
  request.body = to_text({{"kind", "SelfSubjectAccessReview"},
                          {"apiVersion", "authorization.k8s.io/v1"},
                          {"spec",
                           {{"resourceAttributes",
                             {{"verb", right.verb},
                              {"resource", right.resource},
                              {"subresource", right.subresource}}}}}});
  request.content_type = "application/json";
  return caller.call(std::move(request), [done = std::move(done)](Result<ApiReply> reply) {
    if (!reply) {
      done(failure(std::move(reply.error())));
      return;
    }
    Fields fields(reply->body);
    const bool allowed = fields.boolean({"status", "allowed"});
    if (fields.fault()) {
      done(failure(*fields.fault()));
    } else {
      done(allowed);
    }
  });
}

}  // namespace moonfence::kube
