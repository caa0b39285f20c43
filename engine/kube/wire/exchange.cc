#include "kube/wire/exchange.h"

#include <algorithm>

#include "base/text.h"
#include "kube/text/status.h"
#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

// Nothing else would do: who asked for the metadata must not be given a spec by some servers.
constexpr const char* kMetadataList =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

// Of a refusal. A Status is a few hundred bytes; an error page may be megabytes.
constexpr std::size_t kRefusalLimit = 256U << 10U;
constexpr std::size_t kMostWarnings = 256;

bool is_success(int status) {
  return status >= 200 && status < 300;
}

bool is_json(const port::HttpHead& head) {
  const std::string type = lower_cased(head.find("content-type"));
  return trimmed(split(type, ';').front()) == "application/json";
}

// `299 - "text"` with quotes and backslashes escaped (RFC 7234 5.5); "" for other codes.
std::string warning_text(std::string_view header) {
  header = trimmed(header);
  const auto start = header.find('"');
  if (!header.starts_with("299 ") || start == std::string_view::npos) {
    return {};
  }
  std::string text;
  for (std::size_t i = start + 1; i < header.size() && header[i] != '"'; ++i) {
    if (header[i] == '\\' && i + 1 < header.size()) {
      ++i;
    }
    text += header[i];
  }
  return text;
}

}  // namespace

Exchange::Exchange(CallContext& context, ApiRequest request)
    : context_(context), request_(std::move(request)), started_(context.loop.now()) {}

void Exchange::begin() {
  const bool built =
      request_.path_as_given ? request_.path.starts_with('/') : is_built_path(request_.path);
  if (!built || request_.body.empty() != request_.content_type.empty()) {
    give_up(Error{.kind = Error::Kind::Invalid,
                  .text = place() + (built ? ": a body needs a content type and the reverse"
                                           : ": an API path begins with '/' and is made of "
                                             "segments that are encoded (kube/url.h)")});
    return;
  }
  authenticate();
}

void Exchange::authenticate() {
  asked_ = context_.loop.now();
  if (request_.timeout > Duration::zero()) {
    timer_ = context_.loop.after(started_ + request_.timeout - asked_, [this] {
      fail(Error{.kind = Error::Kind::Unauthorized, .text = place() + ": no credentials in time"});
    });
  }
  context_.credentials.headers(
      [this, life = std::weak_ptr<bool>(life_)](Result<std::vector<port::Header>> identity) {
        if (life.expired()) {
          return;
        }
        if (!identity) {
          Error error = std::move(identity.error()).within(place() + ": credentials");
          error.kind = Error::Kind::Unauthorized;
          give_up(std::move(error));
          return;
        }
        send(*std::move(identity));
      });
}

void Exchange::send(std::vector<port::Header> identity) {
  timer_.cancel();
  attempted_ = context_.loop.now();
  head_.reset();
  refusal_body_.clear();
  port::HttpRequest http;
  http.method = request_.method;
  http.url = context_.server + request_.path;
  if (const std::string query = encoded_query(request_.query); !query.empty()) {
    http.url += "?" + query;
  }
  http.headers = std::move(identity);
  http.headers.push_back({"Accept", request_.metadata_only ? kMetadataList : "application/json"});
  http.headers.push_back({"User-Agent", context_.user_agent});
  if (!request_.content_type.empty()) {
    http.headers.push_back({"Content-Type", request_.content_type});
  }
  http.body = request_.body;
  http.lane = request_.lane;
  http.may_send = request_.may_send;
  if (request_.timeout > Duration::zero()) {
    // Never zero, which would mean no limit.
    http.timeout = std::max(started_ + request_.timeout - attempted_, Duration(1));
  }
  transfer_ = context_.http.start(std::move(http), *this);
}

void Exchange::on_head(const port::HttpHead& head) {
  if (deaf_) {
    return;
  }
  in_callback_ = true;
  head_ = head;
  note_head();
  if (is_success(head.status)) {
    Result<void> accepted =
        is_relayed() || ignores_body() || reads() != nullptr || is_json(head)
            ? accept(head)
            : failure(Error::Kind::Malformed,
                      "an answer of type \"" + escaped(head.find("content-type"), 128) +
                          "\" instead of JSON",
                      "something in front of the API server may have answered");
    if (!accepted && !deaf_) {
      give_up(in_doubt(std::move(accepted.error())));
    }
  }
  in_callback_ = false;
}

void Exchange::on_body(std::string_view bytes) {
  if (deaf_ || !head_) {
    return;
  }
  if (!is_success(head_->status)) {
    refusal_body_.append(
        bytes.substr(0, kRefusalLimit - std::min(kRefusalLimit, refusal_body_.size())));
    return;
  }
  in_callback_ = true;
  if (Result<void> taken = take(bytes); !taken && !deaf_) {
    give_up(in_doubt(std::move(taken.error())));
  }
  in_callback_ = false;
}

void Exchange::on_end(const port::HttpEnd& end) {
  if (deaf_) {
    return;
  }
  if (!head_) {
    tell_observer(0, std::nullopt);
    fail(lost(end.error.value_or(Error{.kind = Error::Kind::Retryable,
                                       .text = "the connection closed without an answer"}),
              end.sent || !end.error));
    return;
  }
  if (head_->status == 401 && !repeated_ && !is_relayed() && context_.credentials.refused(asked_)) {
    repeated_ = true;  // a 401 is answered before anything is done, so this is safe for writes too
    authenticate();
    return;
  }
  if (!is_success(head_->status)) {
    fail(refusal());
    return;
  }
  if (end.error) {
    fail(lost(*end.error, true));
    return;
  }
  succeed();
}

void Exchange::give_up(Error error) {
  deaf_ = true;
  timer_ = context_.loop.after(Duration::zero(), [this, error = std::move(error)] { fail(error); });
}

void Exchange::note_head() {
  if (!is_relayed() && request_.logs_warnings) {
    warn_once();
  }
  tell_observer(head_->status, parse_http_date(head_->find("date")));
}

void Exchange::tell_observer(int status, std::optional<WallTime> server_date) {
  if (request_.observed && !is_relayed() && context_.observer != nullptr) {
    context_.observer->on_exchange(request_.method, status, context_.loop.now() - attempted_,
                                   server_date);
  }
  // Lists and watches take what they take. A connection that was refused took nothing.
  if (context_.pace != nullptr && request_.lane == port::Lane::Writes) {
    context_.pace->call_ended(request_.method, status != 0, context_.loop.now() - attempted_,
                              context_.loop.now());
  }
}

void Exchange::warn_once() {
  for (const port::Header& header : head_->headers) {
    const std::string text = header.name == "warning" ? warning_text(header.value) : "";
    if (!text.empty() && context_.warnings.size() < kMostWarnings &&
        context_.warnings.insert(text).second) {
      context_.log.warning("api_warning", {{"text", text}, {"path", request_.path}});
    }
  }
}

Error Exchange::in_doubt(Error error) const {
  if (is_write()) {
    error.kind = Error::Kind::Unknown;
  }
  error.http_status = head_ ? head_->status : 0;
  return std::move(error).within(place());
}

Error Exchange::refusal() const {
  Error error = error_from_reply(*head_, refusal_body_);
  if (request_.word_of_refusal != nullptr) {
    error.reason = request_.word_of_refusal(refusal_body_);
  }
  context_.log.debug("api_call_refused",
                     {{"method", port::to_string(request_.method)},
                      {"path", request_.path},
                      {"status", std::int64_t{head_->status}},
                      {"audit_id", head_->find("audit-id")},
                      {"flow_schema", head_->find("x-kubernetes-pf-flowschema-uid")},
                      {"priority_level", head_->find("x-kubernetes-pf-prioritylevel-uid")}});
  if (is_write() && head_->status >= 500) {
    // A 5xx may come after the store has committed: the write may have happened.
    error.kind = Error::Kind::Unknown;
  }
  return std::move(error).within(place());
}

Error Exchange::lost(Error error, bool sent) const {
  if (is_write() && sent) {
    error.kind = Error::Kind::Unknown;
  } else if (error.kind == Error::Kind::Unknown) {
    error.kind = Error::Kind::Retryable;  // a read changes nothing, whether it arrived or not
  }
  return std::move(error).within(place());
}

std::string Exchange::place() const {
  return std::string(port::to_string(request_.method)) + " " + escaped(request_.path, 512);
}

void Exchange::retire(CallContext& context, std::unique_ptr<Exchange> exchange) {
  exchange->deaf_ = true;
  exchange->life_.reset();
  exchange->timer_.cancel();
  if (!exchange->in_callback_) {
    return;  // destroyed here, and its transfer with it
  }
  context.limbo.push_back(std::move(exchange));
  if (!context.limbo_timer.pending()) {
    context.limbo_timer =
        context.loop.after(Duration::zero(), [&context] { context.limbo.clear(); });
  }
}

}  // namespace moonfence::kube
