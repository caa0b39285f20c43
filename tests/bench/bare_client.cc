// The ceiling: the fastest that a client can have the API server do a list of calls. It knows
// nothing, decides nothing and records nothing. Warm, all its connections are open before it
// begins, so that no handshake is in what is measured; cold, it opens them while it works.
//
//   bare_client SERVER CA-FILE TOKEN-FILE AGENT WIDTH 1.1|2 CALLS-FILE warm|cold
//
// A line of the file is METHOD, path and body, with tabs between. It says "ready", begins at the
// first line on standard input, and says how many calls succeeded and how many did not. A width of
// one is one call after another.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <curl/curl.h>

namespace {

struct Call {
  std::string method;
  std::string path;
  std::string body;
};

struct Access {
  std::string server;
  std::string ca;
  std::string agent;
  bool http2 = false;
  curl_slist* headers = nullptr;
};

std::size_t drop(char*, std::size_t size, std::size_t count, void*) {
  return size * count;
}

std::vector<Call> read_calls(const std::string& file) {
  std::vector<Call> calls;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Call call;
    std::getline(fields, call.method, '\t');
    std::getline(fields, call.path, '\t');
    std::getline(fields, call.body);
    calls.push_back(call);
  }
  return calls;
}

// A client of `width` transfers at once, whose connections stay open from one run to the next.
class Client {
 public:
  Client(Access access, std::size_t width) : access_(std::move(access)), multi_(curl_multi_init()) {
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(2 * width));
    for (std::size_t i = 0; i < width; ++i) {
      idle_.push_back(curl_easy_init());
    }
  }

  // How many of the calls did not succeed.
  std::size_t run(const std::vector<Call>& calls) {
    std::size_t next = 0;
    std::size_t failed = 0;
    std::size_t open = 0;
    while (next < calls.size() || open > 0) {
      for (; next < calls.size() && !idle_.empty(); ++next, ++open) {
        start(calls[next]);
      }
      int running = 0;
      curl_multi_perform(multi_, &running);
      int left = 0;
      bool ended = false;
      while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
        failed += end(message) ? 0U : 1U;
        --open;
        ended = true;
      }
      if (!ended) {
        curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
      }
    }
    return failed;
  }

 private:
  void start(const Call& call) {
    CURL* easy = idle_.back();
    idle_.pop_back();
    curl_easy_reset(easy);
    const std::string url = access_.server + call.path;
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
    if (!call.body.empty()) {
      curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, call.body.c_str());
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, access_.headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, access_.agent.c_str());
    curl_easy_setopt(easy, CURLOPT_CAINFO, access_.ca.c_str());
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(
        easy, CURLOPT_HTTP_VERSION,
        static_cast<long>(access_.http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 60L);
    curl_multi_add_handle(multi_, easy);
  }

  bool end(const CURLMsg* message) {
    CURL* easy = message->easy_handle;
    const CURLcode result = message->data.result;  // gone once the handle is taken out
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(multi_, easy);
    idle_.push_back(easy);
    return result == CURLE_OK && status >= 200 && status < 300;
  }

  Access access_;
  CURLM* multi_;
  std::vector<CURL*> idle_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) {
    std::cerr << "bare_client SERVER CA-FILE TOKEN-FILE AGENT WIDTH 1.1|2 CALLS-FILE warm|cold\n";
    return 2;
  }
  curl_global_init(CURL_GLOBAL_DEFAULT);
  std::string token;
  std::ifstream(argv[3]) >> token;
  Access access{.server = argv[1], .ca = argv[2], .agent = argv[4], .http2 = argv[6][0] == '2'};
  access.headers = curl_slist_append(access.headers, ("Authorization: Bearer " + token).c_str());
  access.headers = curl_slist_append(access.headers, "Content-Type: application/json");
  const std::size_t width = std::strtoul(argv[5], nullptr, 10);
  const std::vector<Call> calls = read_calls(argv[7]);
  Client client(access, width);
  // As many at once as there are connections to open.
  const std::size_t opened = argv[8][0] == 'w' ? width : 0;
  const Call nothing{.method = "GET", .path = "/readyz", .body = {}};
  if (client.run(std::vector<Call>(opened, nothing)) > 0) {
    std::cerr << "bare_client: the server does not answer\n";
    return 1;
  }
  std::cout << "ready" << std::endl;
  std::string begin;
  std::getline(std::cin, begin);
  const std::size_t failed = client.run(calls);
  std::cout << calls.size() - failed << " " << failed << std::endl;
  return 0;
}
