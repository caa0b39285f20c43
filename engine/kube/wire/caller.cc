#include "kube/wire/caller.h"

#include "kube/text/json.h"
#include "kube/text/status.h"
#include "kube/wire/exchange.h"

namespace moonfence::kube {
namespace {

// What is longer is a list, and rare: the parser would keep ten times its length.
constexpr std::size_t kSingleObject = std::size_t{64} << 10U;

// Collects a whole reply.
class Call final : public Exchange {
 public:
  using Done = std::function<void(Result<ApiReply>)>;
  Call(CallContext& context, ApiRequest request, Done done)
      : Exchange(context, std::move(request)), shared_(context), done_(std::move(done)) {}

 private:
  Result<void> accept(const port::HttpHead& head) override {
    if (is_write()) {
      shared_.admitted_fairly = !head.find("x-kubernetes-pf-prioritylevel-uid").empty();
    }
    body_.clear();
    return {};
  }

  Result<void> take(std::string_view bytes) override {
    if (ignores_body()) {
      return {};
    }
    if (body_.size() + bytes.size() > body_limit()) {
      return failure(Error::Kind::Limit,
                     "the reply is larger than " + std::to_string(body_limit()) + " bytes");
    }
    body_ += bytes;
    return {};
  }

  void succeed() override { finish(read()); }
  void fail(Error error) override { finish(failure(std::move(error))); }

  Result<ApiReply> read() {
    if (ignores_body()) {
      return ApiReply{.status = head().status};
    }
    auto body = reads() != nullptr              ? reads()(body_)
                : body_.size() <= kSingleObject ? shared_.replies->parse(body_)
                                                : parse_json(body_);
    if (!body && reads() == nullptr && is_cut_short(body_)) {
      return failure(
          in_doubt(Error{.kind = Error::Kind::Retryable, .text = "the reply ended in the middle"}));
    }
    if (!body) {
      return failure(in_doubt(std::move(body.error())));
    }
    if (body->is_object()) {
      Fields fields(*body);
      // A failure that an intermediary dressed up as a success.
      if (fields.string({"kind"}) == "Status" && fields.string({"status"}) == "Failure") {
        return failure(in_doubt(error_from_status(*body)));
      }
    }
    return ApiReply{.status = head().status,
                    .body = *std::move(body),
                    .audit_id = std::string(head().find("audit-id")),
                    .date = parse_http_date(head().find("date"))};
  }

  void finish(Result<ApiReply> result) {
    // The callback may destroy this exchange, and its own captures with it.
    const Done done = std::move(done_);
    done(std::move(result));
  }

  CallContext& shared_;
  Done done_;
  std::string body_;
};

// Passes a reply on as it comes.
class Stream final : public Exchange {
 public:
  Stream(CallContext& context, ApiRequest request, StreamSink& sink)
      : Exchange(context, std::move(request)), sink_(sink) {}

 private:
  Result<void> accept(const port::HttpHead&) override {
    sink_.on_open();
    return {};
  }
  Result<void> take(std::string_view bytes) override {
    sink_.on_bytes(bytes);
    return {};
  }
  void succeed() override { sink_.on_close({}); }
  void fail(Error error) override { sink_.on_close(failure(std::move(error))); }

  StreamSink& sink_;
};

class Running final : public ApiCall {
 public:
  Running(CallContext& context, std::unique_ptr<Exchange> exchange)
      : context_(context), exchange_(std::move(exchange)) {
    exchange_->begin();
  }
  ~Running() override { Exchange::retire(context_, std::move(exchange_)); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  CallContext& context_;
  std::unique_ptr<Exchange> exchange_;
};

class Refused final : public ApiCall {
 public:
  Refused(loop::Loop& loop, Error error, std::function<void(Error)> done)
      : timer_(loop.after(Duration::zero(),
                          [error = std::move(error), done = std::move(done)] { done(error); })) {}

 private:
  loop::Timer timer_;
};

}  // namespace

struct Caller::Shared : CallContext {};

Caller::Caller(loop::Loop& loop, port::Http& http, Credentials& credentials, port::Log& log,
               std::string server, std::string user_agent)
    : shared_(new Shared{CallContext{.loop = loop,
                                     .http = http,
                                     .credentials = credentials,
                                     .log = log,
                                     .server = std::move(server),
                                     .user_agent = std::move(user_agent),
                                     .admitted_fairly = false,
                                     .replies = {},
                                     .warnings = {},
                                     .limbo = {},
                                     .limbo_timer = {}}}) {
  shared_->replies = std::make_unique<ObjectParser>();
}

Caller::~Caller() = default;

CallHandle Caller::call(ApiRequest request, std::function<void(Result<ApiReply>)> done) {
  return std::make_unique<Running>(
      *shared_, std::make_unique<Call>(*shared_, std::move(request), std::move(done)));
}

CallHandle Caller::refuse(Error error, std::function<void(Error)> done) {
  return std::make_unique<Refused>(shared_->loop, std::move(error), std::move(done));
}

CallHandle Caller::stream(ApiRequest request, StreamSink& sink) {
  return std::make_unique<Running>(*shared_,
                                   std::make_unique<Stream>(*shared_, std::move(request), sink));
}

bool Caller::is_admitted_fairly() const {
  return shared_->admitted_fairly;
}

void Caller::went_back() {
  if (shared_->observer != nullptr) {
    shared_->observer->on_went_back();
  }
}

void Caller::observe(CallObserver* observer) {
  shared_->observer = observer;
}

void Caller::keep_pace(ServerPace* pace) {
  shared_->pace = pace;
}

const ServerPace* Caller::pace() const {
  return shared_->pace;
}

}  // namespace moonfence::kube
