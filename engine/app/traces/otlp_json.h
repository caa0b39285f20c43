#pragma once

// Spans as bodies of OTLP/HTTP requests in JSON (opentelemetry-proto, ExportTraceServiceRequest):
// identifiers in hexadecimal, times in nanoseconds as text, kinds and codes as numbers.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "app/traces/span.h"

namespace moonfence::app {

struct OtlpLimits {
  std::size_t spans = 512;                      // of a request
  std::size_t bytes = std::size_t{256} * 1024;  // likewise
};

// In their order, in as few requests as fit. `resource` stands in each. A span that is larger than
// a request may be is left out.
[[nodiscard]] std::vector<std::string> otlp_requests(const Attributes& resource,
                                                     const std::string& scope_version,
                                                     std::span<const Span> spans,
                                                     const OtlpLimits& limits = {});

}  // namespace moonfence::app
