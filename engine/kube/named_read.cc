#include "kube/named_read.h"

#include <memory>
#include <utility>

#include "kube/json.h"
#include "kube/url.h"

namespace moonfence::kube {
namespace {

constexpr Duration kLookTimeout = std::chrono::seconds(2);

bool is_empty_list(const nlohmann::json& list) {
  Fields fields(list);
  const nlohmann::json* items = fields.array({"items"});
  return items != nullptr && items->empty() && !fields.fault();
}

class NamedRead final : public ApiCall {
 public:
  using Done = std::function<void(Result<ApiReply>)>;
  NamedRead(Caller& caller, ApiRequest request, std::string name, Done done)
      : caller_(caller),
        collection_(request.path.substr(0, request.path.rfind('/'))),
        name_(std::move(name)),
        done_(std::move(done)) {
    call_ = caller_.call(std::move(request), [this](Result<ApiReply> reply) {
      if (!reply && reply.error().kind == Error::Kind::NotFound) {
        look(std::move(reply.error()));
      } else {
        finish(std::move(reply));
      }
    });
  }

 private:
  void look(Error absence) {
    absence_ = std::move(absence);
    ApiRequest request;
    request.path = collection_;
    request.query = {{"fieldSelector", "metadata.name=" + selector_value(name_)}};
    request.timeout = kLookTimeout;
    call_ = caller_.call(std::move(request), [this](const Result<ApiReply>& found) {
      if (found && is_empty_list(found->body)) {
        finish(failure(std::move(absence_)));
      } else {
        finish(failure(Error::Kind::Retryable,
                       "404, and the list of that name does not bear it out" +
                           (found ? std::string() : ": " + found.error().message())));
      }
    });
  }

  void finish(Result<ApiReply> reply) {
    const Done done = std::move(done_);  // the callback may destroy this
    done(std::move(reply));
  }

  Caller& caller_;
  const std::string collection_;
  const std::string name_;
  Done done_;
  Error absence_;
  CallHandle call_;
};

}  // namespace

CallHandle read_named(Caller& caller, ApiRequest request, std::string name,
                      std::function<void(Result<ApiReply>)> done) {
  return std::make_unique<NamedRead>(caller, std::move(request), std::move(name), std::move(done));
}

}  // namespace moonfence::kube
