#include "kube/calls/named_read.h"

#include <memory>
#include <string_view>
#include <utility>

#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

bool is_empty_list(const nlohmann::json& list) {
  Fields fields(list);
  const nlohmann::json* items = fields.array({"items"});
  return items != nullptr && items->empty() && !fields.fault();
}

class NamedRead final : public ApiCall {
 public:
  using Done = std::function<void(Result<ApiReply>)>;
  NamedRead(Caller& caller, ApiRequest request, std::string name, Done done,
            std::function<void()> looks)
      : caller_(caller),
        collection_(request.path.substr(0, request.path.rfind('/'))),
        name_(std::move(name)),
        timeout_(request.timeout),
        done_(std::move(done)),
        looks_(std::move(looks)) {
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
    request.timeout = timeout_;
    call_ = caller_.call(std::move(request), [this](const Result<ApiReply>& found) {
      finish(failure(answer_by(found)));
    });
    if (looks_) {
      looks_();
    }
  }

  Error answer_by(const Result<ApiReply>& found) {
    constexpr std::string_view kUnproven = "404, and the list of that name does not bear it out";
    if (!found) {
      Error error = Error(found.error()).within(kUnproven);
      if (error.kind == Error::Kind::NotFound) {  // whoever answers 404 to everything
        error.kind = Error::Kind::Retryable;
      }
      return error;
    }
    return is_empty_list(found->body)
               ? std::move(absence_)
               : Error{.kind = Error::Kind::Retryable, .text = std::string(kUnproven)};
  }

  void finish(Result<ApiReply> reply) {
    const Done done = std::move(done_);  // the callback may destroy this
    done(std::move(reply));
  }

  Caller& caller_;
  const std::string collection_;
  const std::string name_;
  const Duration timeout_;
  Done done_;
  std::function<void()> looks_;
  Error absence_;
  CallHandle call_;
};

}  // namespace

CallHandle read_named(Caller& caller, ApiRequest request, std::string name,
                      std::function<void(Result<ApiReply>)> done, std::function<void()> looks) {
  return std::make_unique<NamedRead>(caller, std::move(request), std::move(name), std::move(done),
                                     std::move(looks));
}

}  // namespace moonfence::kube
