#include "os/net/exchange.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/text.h"
#include "os/net/environment_proxy.h"

namespace moonfence::os {
namespace {

struct LaneTraits {
  int user_timeout_ms;  // unacknowledged bytes for this long: the peer is dead
  long buffer_bytes;
};

const LaneTraits& traits(port::Lane lane) {
  static constexpr LaneTraits kWrites{5000, 16L << 10};
  static constexpr LaneTraits kWatches{15000, 32L << 10};
  static constexpr LaneTraits kBulk{15000, 512L << 10};
  switch (lane) {
    case port::Lane::Writes:
      return kWrites;
    case port::Lane::Watches:
      return kWatches;
    case port::Lane::Bulk:
    case port::Lane::Endpoints:
    case port::Lane::Guests:
      return kBulk;
  }
  return kWrites;
}

// Remembers the first option that libcurl refused. One typed overload per kind of argument, because
// curl_easy_setopt takes anything.
class Options {
 public:
  explicit Options(CURL* easy) : easy_(easy) {}

  void set(CURLoption option, long value) { note(curl_easy_setopt(easy_, option, value)); }
  void set(CURLoption option, const char* value) { note(curl_easy_setopt(easy_, option, value)); }
  void set(CURLoption option, const std::string& value) { set(option, value.c_str()); }
  void set(CURLoption option, const curl_slist* list) {
    note(curl_easy_setopt(easy_, option, list));
  }
  void set_pointer(CURLoption option, void* value) { note(curl_easy_setopt(easy_, option, value)); }
  template <class Function>
  void set_function(CURLoption option, Function* function) {
    note(curl_easy_setopt(easy_, option, function));
  }
  // PEM text; copied.
  void set_blob(CURLoption option, const std::string& text) {
    std::string copy = text;
    const curl_blob blob{.data = copy.data(), .len = copy.size(), .flags = CURL_BLOB_COPY};
    note(curl_easy_setopt(easy_, option, &blob));
  }

  [[nodiscard]] CURLcode first_error() const { return first_error_; }

 private:
  void note(CURLcode code) {
    if (first_error_ == CURLE_OK) {
      first_error_ = code;
    }
  }

  CURL* easy_;
  CURLcode first_error_ = CURLE_OK;
};

// --- what libcurl calls
// -----------------------------------------------------------------------------

// "HTTP/1.1 200 OK"
int status_of(std::string_view line) {
  int status = 0;
  const auto space = line.find(' ');
  if (space != std::string_view::npos) {
    std::from_chars(line.data() + space + 1, line.data() + line.size(), status);
  }
  return status;
}

void add_head_line(Exchange& exchange, std::string_view line) {
  if (line.starts_with("HTTP/")) {  // also after a 1xx answer
    exchange.head = {.status = status_of(line), .headers = {}};
    return;
  }
  if (trimmed(line).empty()) {
    // 1xx is not the answer, and nor is what follows the body (trailers).
    exchange.head_complete = exchange.head.status >= 200;
    return;
  }
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    exchange.head.headers.push_back({lower_cased(trimmed(line.substr(0, colon))),
                                     std::string(trimmed(line.substr(colon + 1)))});
  }
}

std::size_t on_head_line(char* data, std::size_t size, std::size_t count, void* client) {
  auto& exchange = *static_cast<Exchange*>(client);
  const std::string_view line(data, size * count);
  exchange.head_bytes += line.size();
  if (exchange.head_bytes > exchange.head_limit) {
    exchange.head_too_long = true;
    return 0;  // anything but the full size ends the exchange
  }
  if (!exchange.head_complete) {
    add_head_line(exchange, line);
  }
  return line.size();
}

std::size_t on_body_bytes(char* data, std::size_t size, std::size_t count, void* client) {
  static_cast<Exchange*>(client)->inbox.append(data, size * count);
  return size * count;
}

void set_user_timeout(int fd, int milliseconds) {
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

// Before each attempt, also the ones libcurl makes by itself when a pooled connection turns out to
// be dead (Curl_retry_request repeats any method up to five times).
int on_attempt(void* client, char* /*peer*/, char* /*local*/, int /*peer_port*/,
               int /*local_port*/) {
  auto& exchange = *static_cast<Exchange*>(client);
  if (exchange.abandoned || exchange.state != Exchange::State::Running) {
    return CURL_PREREQFUNC_ABORT;
  }
  exchange.attempted = true;
  if (exchange.request.may_send && !exchange.request.may_send()) {
    exchange.refused = true;
    return CURL_PREREQFUNC_ABORT;
  }
  if (exchange.abandoned || exchange.state != Exchange::State::Running) {  // by may_send
    return CURL_PREREQFUNC_ABORT;
  }
  exchange.end.sent = true;
  exchange.head = {};
  exchange.head_bytes = 0;
  // A pooled connection may have been opened by another lane.
  curl_socket_t fd = CURL_SOCKET_BAD;
  if (curl_easy_getinfo(exchange.easy, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK &&
      fd != CURL_SOCKET_BAD) {
    set_user_timeout(fd, traits(exchange.request.lane).user_timeout_ms);
  }
  return CURL_PREREQFUNC_OK;
}

curl_socket_t on_open_socket(void* client, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return static_cast<OpenSockets*>(client)->open(address->family, address->socktype,
                                                 address->protocol);
}

int on_close_socket(void* client, curl_socket_t fd) {
  return static_cast<OpenSockets*>(client)->close(fd);
}

// Keepalive notices a dead peer on a silent watch; libcurl 7.88 cannot set the count.
int on_new_socket(void* client, curl_socket_t fd, curlsocktype /*purpose*/) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_user_timeout(fd, traits(static_cast<const Exchange*>(client)->request.lane).user_timeout_ms);
  return CURL_SOCKOPT_OK;
}

// --- options
// ----------------------------------------------------------------------------------------

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

std::string part(CURLU* url, CURLUPart what, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, what, &text, flags) != CURLUE_OK) {
    return {};
  }
  std::string out = text;
  curl_free(text);
  return out;
}

Url parsed(const std::string& text) {
  Url url(curl_url());
  constexpr unsigned kAsIs = CURLU_PATH_AS_IS | CURLU_DISALLOW_USER;
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), kAsIs) != CURLUE_OK) {
    return nullptr;
  }
  return url;
}

bool append(curl_slist*& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list, line.c_str());
  if (longer == nullptr) {
    return false;
  }
  list = longer;
  return true;
}

std::optional<Error> set_headers(Exchange& exchange, const std::string& host) {
  // libcurl adds these by itself unless an empty one is given. Before 8.3 it signs an empty one,
  // and does not send it (curl#11664); what is signed is too short for it to add Expect.
  bool ok = exchange.request.aws != nullptr || append(exchange.header_list, "Expect:");
  bool typed = false;
  for (const port::Header& header : exchange.request.headers) {
    const std::string all = header.name + header.value;
    if (header.name.empty() || header.name.find(':') != std::string::npos ||
        std::any_of(all.begin(), all.end(),
                    [](char c) { return c == '\r' || c == '\n' || c == '\0'; })) {
      return Error{.kind = Error::Kind::Invalid,
                   .text = "request header '" + escaped(header.name, 100) +
                           "' holds a character that no header may hold",
                   .hint = "look for a stray line break in a token or configuration value"};
    }
    typed = typed || lower_cased(header.name) == "content-type";
    // "Name;" is libcurl's way to send a header with an empty value.
    ok = ok && append(exchange.header_list,
                      header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
  }
  if (!typed) {
    ok = ok && append(exchange.header_list, "Content-Type:");
  }
  if (!host.empty()) {
    ok = ok && append(exchange.header_list, "Host: " + host);
  }
  if (!ok) {
    return Error{
        .kind = Error::Kind::Limit, .text = "out of memory for request headers", .hint = {}};
  }
  return std::nullopt;
}

// The URL names whom we verify, CONNECT_TO where we connect, Host what the server is asked for.
std::optional<Error> override_name(Exchange& exchange, CURLU* url, const std::string& name,
                                   std::string& host_header) {
  const std::string host = part(url, CURLUPART_HOST);
  const std::string port = part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  host_header = port == "443" ? host : host + ":" + port;
  if (curl_url_set(url, CURLUPART_HOST, name.c_str(), 0) != CURLUE_OK) {
    return Error{.kind = Error::Kind::Invalid,
                 .text = "TLS server name '" + escaped(name, 200) + "' is not a host name",
                 .hint = "check tls-server-name in the kubeconfig"};
  }
  exchange.connect_url = part(url, CURLUPART_URL);
  if (!append(exchange.connect_to, "::" + host + ":" + port)) {
    return Error{.kind = Error::Kind::Limit, .text = "out of memory for a request", .hint = {}};
  }
  return std::nullopt;
}

void set_tls(Options& options, const port::TlsSettings& tls) {
  options.set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  options.set(CURLOPT_SSL_VERIFYPEER, tls.insecure ? 0L : 1L);
  options.set(CURLOPT_SSL_VERIFYHOST, tls.insecure ? 0L : 2L);
  if (tls.ca_pem.empty()) {
    // A system store that was updated is read again after this many seconds; blobs are never
    // cached.
    options.set(CURLOPT_CA_CACHE_TIMEOUT, 60L);
  } else {
    // Only this CA: libcurl would look into its compiled-in folder besides the blob.
    for (const CURLoption option :
         {CURLOPT_CAINFO, CURLOPT_CAPATH, CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAPATH}) {
      options.set_pointer(option, nullptr);
    }
    options.set_blob(CURLOPT_CAINFO_BLOB, tls.ca_pem);
    if (!tls.proxy_url.empty()) {
      options.set_blob(CURLOPT_PROXY_CAINFO_BLOB, tls.ca_pem);
    }
  }
  if (!tls.certificate_pem.empty()) {
    options.set_blob(CURLOPT_SSLCERT_BLOB, tls.certificate_pem);
    options.set_blob(CURLOPT_SSLKEY_BLOB, tls.key_pem);
  }
}

// One that is configured is not subject to NO_PROXY. libcurl itself reads no variable: it reads
// them in its own way.
void set_proxy(Options& options, const port::TlsSettings& tls, CURLU* url) {
  const std::string host = part(url, CURLUPART_HOST);
  const std::string bare = host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
  const std::string scheme = part(url, CURLUPART_SCHEME);
  const std::string port = part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  options.set(CURLOPT_PROXY, tls.proxy_url.empty()
                                 ? proxy_for({.scheme = scheme, .host = bare, .port = port},
                                             ProxyEnvironment::of_process())
                                 : tls.proxy_url);
  options.set(CURLOPT_NOPROXY, "");
}

void set_request(Options& options, const port::HttpRequest& request) {
  const bool has_body = !request.body.empty() || request.method == port::Method::Post ||
                        request.method == port::Method::Put ||
                        request.method == port::Method::Patch;
  if (has_body) {
    options.set(CURLOPT_POST, 1L);
    options.set(CURLOPT_POSTFIELDS, request.body.c_str());
    options.set(CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
  } else {
    options.set(CURLOPT_HTTPGET, 1L);
  }
  options.set(CURLOPT_CUSTOMREQUEST, std::string(port::to_string(request.method)));
}

void set_signature(Options& options, const port::AwsSignature& aws) {
  options.set(CURLOPT_AWS_SIGV4, "aws:amz:" + aws.region + ":" + aws.service);
  options.set(CURLOPT_USERNAME, aws.access_key);
  options.set(CURLOPT_PASSWORD, aws.secret_key);
}

void set_connection(Options& options, const HttpLimits& limits, port::Lane lane) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  options.set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  options.set(CURLOPT_PROTOCOLS_STR, "http,https");
  options.set(CURLOPT_FOLLOWLOCATION, 0L);
  options.set(CURLOPT_NOSIGNAL, 1L);
  // Cancelling during a name lookup must not wait for the resolver's thread.
  options.set(CURLOPT_QUICK_EXIT, 1L);
  options.set(CURLOPT_DNS_CACHE_TIMEOUT, 30L);
  options.set(CURLOPT_TCP_NODELAY, 1L);
  options.set(CURLOPT_PATH_AS_IS, 1L);
  options.set(CURLOPT_HEADEROPT, long{CURLHEADER_SEPARATE});  // credentials are not for a proxy
  options.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  options.set(CURLOPT_CONNECTTIMEOUT_MS,
              static_cast<long>(duration_cast<milliseconds>(limits.connect_timeout).count()));
  options.set(CURLOPT_BUFFERSIZE, traits(lane).buffer_bytes);
  options.set(CURLOPT_UPLOAD_BUFFERSIZE, 16L << 10);  // the least there is; 64 KiB else, for each
}

void set_callbacks(Options& options, Exchange& exchange, OpenSockets& sockets) {
  options.set_function(CURLOPT_HEADERFUNCTION, on_head_line);
  options.set_pointer(CURLOPT_HEADERDATA, &exchange);
  options.set_function(CURLOPT_WRITEFUNCTION, on_body_bytes);
  options.set_pointer(CURLOPT_WRITEDATA, &exchange);
  options.set_function(CURLOPT_PREREQFUNCTION, on_attempt);
  options.set_pointer(CURLOPT_PREREQDATA, &exchange);
  options.set_function(CURLOPT_SOCKOPTFUNCTION, on_new_socket);
  options.set_pointer(CURLOPT_SOCKOPTDATA, &exchange);
  // A connection outlives the exchange that opened it; so do these.
  options.set_function(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
  options.set_pointer(CURLOPT_OPENSOCKETDATA, &sockets);
  options.set_function(CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
  options.set_pointer(CURLOPT_CLOSESOCKETDATA, &sockets);
  options.set_pointer(CURLOPT_ERRORBUFFER, exchange.error_text.data());
  options.set_pointer(CURLOPT_PRIVATE, &exchange);
}

}  // namespace

Exchange::~Exchange() {
  free_lists();
}

void Exchange::free_lists() {
  curl_slist_free_all(std::exchange(header_list, nullptr));
  curl_slist_free_all(std::exchange(connect_to, nullptr));
}

std::string place_of(const std::string& url) {
  const Url parts = parsed(url);
  if (parts == nullptr) {
    return escaped(url, 200);
  }
  return part(parts.get(), CURLUPART_HOST) + ":" +
         part(parts.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

std::optional<Error> configure(Exchange& exchange, const port::TlsSettings& tls,
                               const HttpLimits& limits, OpenSockets& sockets) {
  const Url url = parsed(exchange.request.url);
  const std::string scheme = url == nullptr ? "" : part(url.get(), CURLUPART_SCHEME);
  if (scheme != "https" && scheme != "http") {
    return Error{.kind = Error::Kind::Invalid,
                 .text = "'" + escaped(exchange.request.url, 200) + "' is not an http(s) URL",
                 .hint = "check server in the kubeconfig"};
  }
  exchange.place = place_of(exchange.request.url);
  exchange.connect_url = exchange.request.url;
  Options options(exchange.easy);
  set_proxy(options, tls, url.get());
  std::string host_header;
  if (scheme == "https" && !tls.server_name.empty()) {
    if (auto error = override_name(exchange, url.get(), tls.server_name, host_header)) {
      return error;
    }
  }
  if (auto error = set_headers(exchange, host_header)) {
    return error;
  }
  exchange.head_limit = limits.head_bytes;
  set_connection(options, limits, exchange.request.lane);
  set_tls(options, tls);
  set_request(options, exchange.request);
  if (exchange.request.aws != nullptr) {
    set_signature(options, *exchange.request.aws);
  }
  set_callbacks(options, exchange, sockets);
  options.set(CURLOPT_URL, exchange.connect_url);
  options.set(CURLOPT_HTTPHEADER, exchange.header_list);
  options.set(CURLOPT_CONNECT_TO, exchange.connect_to);
  if (options.first_error() != CURLE_OK) {
    return Error{
        .kind = Error::Kind::Invalid,
        .text = exchange.place +
                ": libcurl refuses the settings: " + curl_easy_strerror(options.first_error()),
        .hint = "check proxy-url in the kubeconfig and the installed libcurl (7.88 or newer)"};
  }
  return std::nullopt;
}

}  // namespace moonfence::os
