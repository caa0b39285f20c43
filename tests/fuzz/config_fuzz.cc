// Bytes as configuration: whatever an operator or a policy author can write must be taken or
// refused with a text, in time. The first byte names the reader: b a text of moonfence.yaml, m a
// whole ConfigMap, k a kubeconfig, c a --config file, s a label selector, d times; x an answer in
// XML of an endpoint. Seeds: seeds/config.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "app/settings/settings.h"
#include "base/text.h"
#include "base/time.h"
#include "cluster/endpoints/aws.h"
#include "cluster/endpoints/xml.h"
#include "fuzz/config_maps.h"
#include "fuzz/finding.h"
#include "kube/auth/config.h"
#include "kube/auth/kubeconfig.h"
#include "policy/bundle/bindings.h"
#include "policy/host/selector.h"
#include "support/fake_files.h"
#include "support/policies.h"

namespace moonfence::fuzz {
namespace {

// Generous: the sanitizers and a busy machine stand between this and what an operator would notice.
constexpr Duration kLongest = std::chrono::seconds(2);
const std::string kPath = "/home/op/.kube/config";

void read_kubeconfig(std::string_view text) {
  const auto parsed = kube::parse_kubeconfig(text, kPath);
  if (!parsed) {
    check_error(parsed.error(), kPath);
    return;
  }
  kube::Kubeconfig merged = *parsed;
  kube::merge_kubeconfig(merged, *parsed);
  if (merged.clusters.size() != parsed->clusters.size() ||
      merged.users.size() != parsed->users.size()) {
    report("merged with itself it has other entries");
  }
  test::FakeFiles files;
  files.set("HOME", "/home/op");
  files.write(kPath, std::string(text));
  files.write("/home/op/.kube/ca.crt",
              "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n");
  files.write("/home/op/.kube/token", "t0ken\n");
  const auto loaded = kube::load_config(files, {.kubeconfig = kPath, .context = ""});
  if (!loaded) {
    check_error(loaded.error(), "");
    return;
  }
  for (const std::string& warning : loaded->warnings) {
    check_line("a warning", warning);
  }
}

void read_settings(const std::string& text) {
  const auto parsed = app::parse_settings(text, "/etc/moonfence/config.yaml");
  if (!parsed) {
    check_error(parsed.error(), "/etc/moonfence/config.yaml");
    return;
  }
  if (parsed->retry_interval < std::chrono::milliseconds(100) ||
      parsed->retry_window < parsed->retry_interval ||
      (parsed->cache_expiry > Duration::zero() && parsed->cache_expiry < parsed->retry_window)) {
    report("settings whose times do not fit together were accepted");
  }
}

void read_selector(std::string_view text) {
  const auto selector = policy::LabelSelector::parse(text);
  if (!selector) {
    check_error(selector.error(), "");
    return;
  }
  // What it selects is asked for, not judged: the API server's rules have their own tests.
  for (const kube::Labels& labels : {kube::Labels{}, kube::Labels{{"app", "web"}, {"tier", ""}}}) {
    (void)selector->matches(labels);
  }
}

void read_times(std::string_view text) {
  if (const auto duration = parse_duration(text)) {
    if (*duration < Duration::zero() || parse_duration(format_duration(*duration)) != duration) {
      report("the duration " + escaped(text) + " comes back as " + format_duration(*duration));
    }
  }
  if (const auto time = parse_rfc3339(text)) {
    const auto whole = std::chrono::floor<std::chrono::microseconds>(*time);
    const auto again = parse_rfc3339(format_rfc3339_micro(*time));
    if (!again || *again != whole) {
      report("the time " + escaped(text) + " comes back as " + format_rfc3339_micro(*time));
    }
  }
  (void)parse_http_date(text);
}

void read_xml(std::string_view text) {
  const auto parsed = cluster::parse_xml(text);
  if (!parsed) {
    check_error(parsed.error(), "XML");
  } else if (!parsed->is_object() || parsed->size() != 1) {
    report("XML was read as " + parsed->dump());
  }
  (void)cluster::aws_error_code(text);
}

void read_as(char reader, std::string_view text) {
  switch (reader) {
    case 'b':
      return read_bindings(text);
    case 'm':
      return read_config_map(text);
    case 'k':
      return read_kubeconfig(text);
    case 'c':
      return read_settings(std::string(text));
    case 's':
      return read_selector(text);
    case 'x':
      return read_xml(text);
    default:
      return read_times(text);
  }
}

}  // namespace
}  // namespace moonfence::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moonfence;  // NOLINT(google-build-using-namespace): libFuzzer's C name
  const std::string input(data, data + size);
  if (input.empty()) {
    return 0;
  }
  constexpr std::string_view kReaders = "bmkcsdx";
  const char first = input.front();
  const char reader = kReaders.find(first) != std::string_view::npos
                          ? first
                          : kReaders[static_cast<std::uint8_t>(first) % kReaders.size()];
  std::string_view text(input);
  text.remove_prefix(text.substr(1).starts_with('\n') ? 2 : 1);
  ThreadCpuClock clock;
  const Duration began = clock.thread_time();
  try {
    fuzz::read_as(reader, text);
  } catch (const std::exception& thrown) {
    fuzz::report(std::string("an exception left a reader: ") + thrown.what());
  }
  if (const Duration spent = clock.thread_time() - began; spent > fuzz::kLongest) {
    fuzz::report("it took " + format_duration(spent) + " of CPU time");
  }
  return 0;
}
