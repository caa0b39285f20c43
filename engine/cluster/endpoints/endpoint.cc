#include "cluster/endpoints/endpoint.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cluster/endpoints/endpoint_access.h"
#include "cluster/endpoints/endpoint_credentials.h"
#include "cluster/endpoints/xml.h"
#include "kube/wire/url.h"

namespace moonfence::cluster {
namespace {

// "/a?b=c" as its parts.
void address(kube::ApiRequest& request, const std::string& path) {
  const std::size_t mark = path.find('?');
  request.path = path.substr(0, mark);
  request.query = kube::decoded_query(mark == path.npos ? "" : path.substr(mark + 1));
}

// A call that fails in a later turn, unsent.
class Unsent final : public kube::ApiCall {
 public:
  Unsent(loop::Loop& loop, EndpointFailure why, Endpoints::Done done)
      : timer_(loop.after(Duration::zero(), [why = std::move(why), done = std::move(done)] {
          done(tl::unexpected<EndpointFailure>(why));
        })) {}

 private:
  loop::Timer timer_;
};

// What a request is called in messages.
std::string name_of(port::Method method, const std::string& path) {
  return std::string(to_string(method)) + " " + escaped(path, 512);
}

}  // namespace

class Endpoints::One final {
 public:
  One(const Surroundings& around, const std::string& name, EndpointRules rules)
      : loop_(around.loop),
        name_(name),
        rules_(std::move(rules)),
        access_(around, name, rules_),
        caller_(around.loop, access_.http(), access_, around.log, rules_.url, around.user_agent) {}
  One(const One&) = delete;
  One& operator=(const One&) = delete;

  kube::CallHandle get(const std::string& path, Done done, std::size_t body_limit) {
    kube::ApiRequest request;
    std::string what = name_of(port::Method::Get, path);
    if (is_aws()) {
      auto question = aws_question(path);
      if (!question) {
        return std::make_unique<Unsent>(loop_, refused(std::move(question.error())),
                                        std::move(done));
      }
      as_aws(request, *std::move(question), what);
      request.only_asks = true;
    } else {
      address(request, path);
    }
    request.timeout = rules_.timeout;
    request.body_limit = body_limit;
    request.logs_warnings = false;  // nothing that an endpoint says is quoted
    return caller_.call(std::move(request), [this, path, what, sent = loop_.now(),
                                             done = std::move(done)](Result<kube::ApiReply> reply) {
      done(answer_of(std::move(reply), {.path = path, .what = what, .took = loop_.now() - sent}));
    });
  }

  kube::CallHandle post(const Order& order, const Accepted& done) {
    kube::ApiRequest request;
    std::string what = name_of(port::Method::Post, order.path);
    if (is_aws()) {
      auto command = aws_order(order.path, order.body);
      if (!command) {
        return std::make_unique<Unsent>(loop_, refused(std::move(command.error())), told(done));
      }
      as_aws(request, *std::move(command), what);
    } else {
      request.method = port::Method::Post;
      address(request, order.path);
      request.body = order.body;
      request.content_type = "application/json";
    }
    request.timeout = std::min(rules_.timeout, order.limit);
    request.may_send = order.may_send;
    request.ignores_body = true;
    request.logs_warnings = false;
    return caller_.call(std::move(request), [this, what, done](Result<kube::ApiReply> reply) {
      if (reply) {
        done({});
        return;
      }
      Error& error = reply.error();
      if (is_of_credentials(error) && !error.reason.empty()) {
        error.kind = Error::Kind::Retryable;  // no token could be had, and nothing was sent
      }
      if (error.http_status != 0) {
        // Its own words may repeat what we sent.
        error.text = what + ": HTTP " + std::to_string(error.http_status) + code_of(error);
      }
      keep_advice_of_transport(error);
      error.reason.clear();
      done(failure(std::move(error).within("endpoint " + name_)));
    });
  }

  // Who is told of an order that is not sent.
  static Done told(const Accepted& done) {
    return [done](const EndpointResult& unsent) { done(failure(Error(unsent.error().error))); };
  }

 private:
  [[nodiscard]] bool is_aws() const { return access_.is_aws(); }
  static void as_aws(kube::ApiRequest& request, AwsCall call, std::string& what) {
    what = std::move(call.action);
    request.method = port::Method::Post;
    request.path = "/";
    request.body = std::move(call.form);
    request.content_type = "application/x-www-form-urlencoded; charset=utf-8";
    request.reads = parse_xml;
    request.word_of_refusal = aws_error_code;
  }
  [[nodiscard]] EndpointFailure refused(Error why) const {
    return {.why = EndpointFailure::Why::Refused,
            .error = std::move(why).within("endpoint " + name_)};
  }
  // " UnauthorizedOperation": the one word of a service that is repeated, since it is of a closed
  // form.
  [[nodiscard]] std::string code_of(const Error& error) const {
    return is_aws() && !error.reason.empty() ? " " + error.reason : std::string();
  }

  // It is ours, and not a 401 of the endpoint: only then `reason` is a word of EndpointCredentials.
  [[nodiscard]] static bool is_of_credentials(const Error& error) {
    return error.kind == Error::Kind::Unauthorized && error.http_status == 0;
  }
  // Whoever answered, the advice is on an answer of the API server, and may have words of it.
  static void keep_advice_of_transport(Error& error) {
    if (error.http_status != 0) {
      error.hint.clear();
    }
  }
  struct Asked {
    std::string path;
    std::string what;  // in messages
    Duration took{};
  };
  [[nodiscard]] EndpointResult answer_of(Result<kube::ApiReply> reply, const Asked& asked) {
    if (reply) {
      rows_.succeeded(asked.path);
      return EndpointAnswer{.status = reply->status,
                            .body = std::make_shared<const nlohmann::json>(std::move(reply->body))};
    }
    Error& error = reply.error();
    if (error.http_status == 404) {
      rows_.succeeded(asked.path);
      return EndpointAnswer{.status = 404, .body = nullptr};
    }
    const EndpointFailure::Why why = reason_of(error, asked.took);
    if (is_of_credentials(error) && why != EndpointFailure::Why::Unauthorized) {
      error.kind = Error::Kind::Retryable;
    }
    std::string code;
    const bool refused =
        error.http_status != 0 && (error.http_status < 200 || error.http_status > 299);
    if (refused) {
      // Its own words may repeat what we sent.
      error.text = asked.what + ": HTTP " + std::to_string(error.http_status) + code_of(error);
      code = is_aws() ? error.reason : std::string();
    } else if (error.http_status != 0 && error.kind != Error::Kind::Limit) {
      error.text = asked.what + ": the answer is not the " + (is_aws() ? "XML" : "JSON") +
                   " that was expected";
    }
    keep_advice_of_transport(error);
    error.reason.clear();
    return tl::unexpected<EndpointFailure>(
        EndpointFailure{.why = why,
                        .error = std::move(error).within("endpoint " + name_),
                        .code = std::move(code),
                        .since = rows_.failed(asked.path, loop_.now())});
  }

  [[nodiscard]] EndpointFailure::Why reason_of(const Error& error, Duration took) const {
    using Why = EndpointFailure::Why;
    if (error.kind == Error::Kind::Malformed) {
      return Why::NotJson;
    }
    if (error.kind == Error::Kind::Limit) {
      return Why::TooLarge;
    }
    if (error.http_status != 0) {
      return Why::Status;
    }
    if (is_of_credentials(error)) {
      // A login that does not answer holds a request up until its time is over.
      return error.reason.empty() && took >= rules_.timeout ? Why::Timeout
                                                            : why_of_login(error.reason);
    }
    return took >= rules_.timeout ? Why::Timeout : Why::Unreachable;
  }

  loop::Loop& loop_;
  const std::string name_;
  const EndpointRules rules_;
  FailureRows rows_;
  EndpointAccess access_;
  kube::Caller caller_;
};

EndpointFailure unconfigured(const std::string& name) {
  return {.why = EndpointFailure::Why::Unconfigured,
          .error = {.kind = Error::Kind::Invalid,
                    .text = "endpoint " + name + " is not configured",
                    .hint = "name it under endpoints in the engine's configuration"}};
}

Endpoints::Endpoints(const Surroundings& surroundings, const EndpointTable& table)
    : loop_(surroundings.loop) {
  for (const auto& [name, rules] : table) {
    all_.emplace(name, std::make_unique<One>(surroundings, name, rules));
  }
}

Endpoints::~Endpoints() = default;

kube::CallHandle Endpoints::get(const std::string& name, const std::string& path, Done done,
                                std::size_t body_limit) {
  const auto found = all_.find(name);
  if (found == all_.end()) {
    return std::make_unique<Unsent>(loop_, unconfigured(name), std::move(done));
  }
  return found->second->get(path, std::move(done), body_limit);
}

kube::CallHandle Endpoints::post(const std::string& name, const Order& order,
                                 const Accepted& done) {
  const auto found = all_.find(name);
  if (found == all_.end()) {
    return std::make_unique<Unsent>(loop_, unconfigured(name), One::told(done));
  }
  return found->second->post(order, done);
}

}  // namespace moonfence::cluster
