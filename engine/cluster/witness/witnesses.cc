#include "cluster/witness/witnesses.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/sha256.h"
#include "base/text.h"
#include "cluster/witness/testimony.h"

namespace moonfence::cluster {
namespace {

// As Kubernetes names nodes; anything else would say something else in a URL.
bool is_plain(std::string_view name) {
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string_view::npos;
}

// Of one that was never heard nobody knows since when.
bool is_new(Moment quiet_since, Moment now) {
  return quiet_since != Moment{} && now - quiet_since < KernelWatch::kUnsureFor;
}

}  // namespace

// Another replica: one exchange at a time.
class Witnesses::Other final : private port::HttpSink {
 public:
  Other(Witnesses& witnesses, Replica replica)
      : witnesses_(witnesses), replica_(std::move(replica)) {}
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  [[nodiscard]] const Replica& replica() const { return replica_; }
  [[nodiscard]] bool is_failing() const { return !fault_.empty(); }
  [[nodiscard]] const Said* said_of(const NodeName& node) const {
    const auto found = said_.find(node);
    return found == said_.end() ? nullptr : &found->second;
  }
  // Of the others it is not asked any more.
  void keep_only(const std::set<NodeName>& nodes) {
    const auto is_over = [&nodes](const auto& each) { return !nodes.contains(each.first); };
    std::erase_if(said_, is_over);
    std::erase_if(turns_, is_over);
  }

  // As many at once as fit: those that fell silent within the last minute, then those of which it
  // was not asked for longest. Of a thousand behind a firewall each has its turn.
  void ask(const Quiet& quiet) {
    if (transfer_ != nullptr) {
      return;
    }
    asked_ = witnesses_.loop_.now();
    std::vector<std::tuple<bool, Moment, std::size_t>> turns;
    for (std::size_t each = 0; each < quiet.size(); ++each) {
      const auto& [since, node] = quiet[each];
      if (is_plain(node.text())) {
        turns.emplace_back(!is_new(since, asked_), turns_[node], each);
      }
    }
    std::sort(turns.begin(), turns.end());
    asked_nodes_.clear();
    std::size_t size = 0;
    for (const auto& [is_old, asked, each] : turns) {
      const NodeName& node = quiet[each].second;
      size += node.text().size() + 1;
      if (size > kLongestNodes) {
        break;
      }
      asked_nodes_.push_back(node);
      turns_[node] = asked_;
    }
    nonce_ = witnesses_.fresh_nonce();
    status_ = 0;
    body_.clear();
    transfer_ = witnesses_.http_.start(
        {.method = port::Method::Get,
         .url = "http://" + replica_.address + question_path(nonce_, asked_nodes_),
         .lane = port::Lane::Endpoints,
         .timeout = kLimit,
         .tls = without_proxy()},
        *this);
  }

 private:
  // Those of the API server are not for it.
  static std::shared_ptr<const port::TlsSettings> without_proxy() {
    static const auto none = std::make_shared<const port::TlsSettings>();
    return none;
  }

  void on_head(const port::HttpHead& head) override { status_ = head.status; }

  void on_body(std::string_view bytes) override {
    if (body_.size() <= kLongestAnswer) {
      body_ += bytes.substr(0, kLongestAnswer + 1 - body_.size());
    }
  }

  void on_end(const port::HttpEnd& end) override {
    transfer_.reset();
    const Result<void> taken = end.error ? Result<void>(failure(*end.error)) : take();
    const std::string fault = taken ? "" : taken.error().message();
    if (fault.empty() != fault_.empty()) {
      witnesses_.log_.write(fault.empty() ? port::Log::Level::Info : port::Log::Level::Warning,
                            fault.empty() ? "witness_answers" : "witness_fails",
                            {{"replica", replica_.name},
                             {"address", replica_.address},
                             {"error", escaped(fault, kLongestFault)}});
    }
    fault_ = fault;
    witnesses_.tell();
  }

  Result<void> take() {
    if (status_ != 200) {
      return failure(Error::Kind::Retryable, "HTTP " + std::to_string(status_));
    }
    if (body_.size() > kLongestAnswer) {
      return failure(Error::Kind::Limit, "the answer is too long");
    }
    const auto testimony = testimony_of(body_, replica_.public_key);
    if (!testimony) {
      return failure(testimony.error());
    }
    if (testimony->nonce != nonce_) {
      return failure(Error::Kind::Unauthorized, "the answer is of another question");
    }
    for (const NodeName& node : asked_nodes_) {
      const auto found = testimony->machines.find(node);
      if (found != testimony->machines.end()) {
        take(node, found->second, testimony->is_well);
      }
    }
    return {};
  }

  void take(const NodeName& node, const Testimony::Machine& machine, bool is_well) {
    const bool agrees = machine.kernel != Kernel::NotObservable && machine.quiet &&
                        *machine.quiet > kUnheard && machine.unanswered >= kUnanswered;
    said_[node] = {.asked = asked_,
                   .hears = machine.kernel == Kernel::Answers && !agrees,
                   .agrees = agrees && is_well};
    if (machine.quiet) {
      witnesses_.heard(node, witnesses_.loop_.now() - *machine.quiet);
    }
  }

  static constexpr std::size_t kLongestAnswer = std::size_t{64} << 10U;
  static constexpr std::size_t kLongestFault = 256;

  Witnesses& witnesses_;
  const Replica replica_;
  std::map<NodeName, Said> said_;
  std::map<NodeName, Moment> turns_;  // when it was asked about last, whatever it said
  std::vector<NodeName> asked_nodes_;
  std::string nonce_;
  Moment asked_{};
  int status_ = 0;
  std::string body_;
  std::string fault_;
  std::unique_ptr<port::Transfer> transfer_;
};

Witnesses::Witnesses(loop::Loop& loop, port::Http& http, port::Random& random, port::Log& log,
                     const Detection& detection)
    : loop_(loop), http_(http), log_(log), detection_(detection) {
  constexpr int kDraws = 4;
  for (int i = 0; i < kDraws; ++i) {
    secret_ += std::to_string(random.next()) + ' ';
  }
}

Witnesses::~Witnesses() = default;

void Witnesses::know(const std::vector<Replica>& others) {
  std::map<std::string, std::unique_ptr<Other>> known;
  for (const Replica& replica : others) {
    if (known.size() == kMost) {
      break;
    }
    const auto found = others_.find(replica.name);
    if (found != others_.end() && found->second->replica() == replica) {
      known[replica.name] = std::move(found->second);
    } else {
      known[replica.name] = std::make_unique<Other>(*this, replica);
      tried_at_.reset();
    }
  }
  others_ = std::move(known);
}

void Witnesses::look() {
  const Moment now = loop_.now();
  quiet_ = detection_.quiet();
  std::erase_if(quiet_, [now](const auto& each) { return now - each.first < kAskAfter; });
  std::set<NodeName> names;
  for (const auto& [since, name] : quiet_) {
    names.insert(name);
  }
  std::erase_if(signs_, [&names](const auto& each) { return !names.contains(each.first); });
  for (const auto& [name, other] : others_) {
    other->keep_only(names);
  }
  tell();
  if (quiet_.empty() || others_.empty()) {
    timer_.cancel();
    try_out();
  } else if (!timer_.pending()) {
    ask();
  }
}

void Witnesses::ask() {
  for (const auto& [name, other] : others_) {
    other->ask(quiet_);
  }
  const bool is_any_new =
      std::any_of(quiet_.begin(), quiet_.end(),
                  [now = loop_.now()](const auto& each) { return is_new(each.first, now); });
  timer_ = loop_.after(is_any_new ? kAskEvery : kAskSlowly, [this] { ask(); });
}

// Whoever has seen all nonces so far cannot foresee the next one, as he could a generator's draws.
std::string Witnesses::fresh_nonce() {
  constexpr std::size_t kDigits = 32;
  return sha256_hex(secret_ + std::to_string(++nonces_)).substr(0, kDigits);
}

void Witnesses::try_out() {
  const Moment now = loop_.now();
  if (tried_at_ && now - *tried_at_ < kTryEvery) {
    return;
  }
  tried_at_ = now;
  for (const auto& [name, other] : others_) {
    other->ask({});
  }
}

void Witnesses::heard(const NodeName& node, Moment sign) {
  Moment& last = signs_.try_emplace(node, sign).first->second;
  last = std::max(last, sign);
}

template <typename Is>
std::string Witnesses::any_says(const NodeName& node, Is is) const {
  const Moment now = loop_.now();
  const auto found = std::find_if(others_.begin(), others_.end(), [&](const auto& each) {
    const Said* said = each.second->said_of(node);
    return said != nullptr && now - said->asked <= kFresh && is(*said);
  });
  return found == others_.end() ? std::string() : found->first;
}

bool Witnesses::is_heard(const NodeName& node) const {
  return !any_says(node, [](const Said& said) { return said.hears; }).empty();
}

Kernel Witnesses::kernel_of(const NodeName& node) const {
  const Kernel kernel = detection_.kernel_of(node);
  if (kernel == Kernel::Answers || is_heard(node)) {
    return Kernel::Answers;
  }
  const auto sign = signs_.find(node);
  const bool was_heard =
      sign != signs_.end() && loop_.now() - sign->second < KernelWatch::kUnsureFor;
  return was_heard && !is_unheard(node) ? Kernel::Unsure : kernel;
}

std::optional<Moment> Witnesses::last_sign(const NodeName& node) const {
  const auto own = detection_.last_sign(node);
  const auto other = signs_.find(node);
  return own && other != signs_.end() ? std::max(*own, other->second) : own;
}

std::optional<Moment> Witnesses::heard_at(const NodeName& node) const {
  const auto own = detection_.heard_at(node);
  const auto other = signs_.find(node);
  return other == signs_.end() ? own : std::max(own.value_or(other->second), other->second);
}

std::vector<NodeName> Witnesses::silent() const {
  std::vector<NodeName> names = detection_.silent();
  std::erase_if(names, [this](const NodeName& name) { return kernel_of(name) != Kernel::Silent; });
  return names;
}

std::optional<Moment> Witnesses::silent_since(const NodeName& node) const {
  const auto since =
      kernel_of(node) == Kernel::Silent ? detection_.silent_since(node) : std::nullopt;
  const auto sign = signs_.find(node);
  return since && sign != signs_.end() ? std::max(*since, sign->second) : since;
}

bool Witnesses::is_unheard(const NodeName& node) const {
  return !any_says(node, [](const Said& said) { return said.agrees; }).empty();
}

bool Witnesses::is_confirmed(const NodeName& node) const {
  return kernel_of(node) == Kernel::Silent && is_unheard(node);
}

Witnesses::Counts Witnesses::counts() const {
  Counts counts{.replicas = others_.size()};
  for (const auto& [name, other] : others_) {
    counts.failing += other->is_failing() ? 1U : 0U;
  }
  for (const NodeName& name : detection_.silent()) {
    counts.heard += is_heard(name) ? 1U : 0U;
    counts.confirmed += is_confirmed(name) ? 1U : 0U;
  }
  return counts;
}

// Which machines another replica hears that are silent to us: each once, until it is over.
void Witnesses::tell() {
  std::set<NodeName> heard;
  for (const auto& [since, name] : quiet_) {
    if (detection_.kernel_of(name) == Kernel::Silent && is_heard(name)) {
      heard.insert(name);
      if (!told_heard_.contains(name)) {
        const auto hears = [](const Said& said) { return said.hears; };
        log_.warning("machine_heard_elsewhere",
                     {{"node", name.text()}, {"replica", any_says(name, hears)}});
      }
    }
  }
  told_heard_ = std::move(heard);
}

}  // namespace moonfence::cluster
