#pragma once

// Where audit records go: the audit file, the log, the metrics and the events of the cluster. One
// place, so that the four can never tell different stories.

#include <functional>
#include <string>

#include "app/telling/metrics.h"
#include "audit/trail.h"
#include "port/log.h"

namespace moonfence::app {

class Records final : public audit::Trail::Sink {
 public:
  // Appends one line to the audit file; empty function: no file was asked for, the log is the
  // record.
  using AppendLine = std::function<Result<void>(std::string_view line)>;
  using Announce = std::function<void(const audit::Record&, WallTime at)>;

  Records(AppendLine append_line, port::Log& log, Metrics& metrics, Announce announce)
      : append_line_(std::move(append_line)),
        log_(log),
        metrics_(metrics),
        announce_(std::move(announce)) {}

  // A failed write is returned. Nothing more is told of an intent then, because it does not happen;
  // everything else has happened and is told by what still works.
  Result<void> append(const audit::Record& record, WallTime at, std::string_view json) override;

 private:
  void tell(const audit::Record& record, WallTime at);

  AppendLine append_line_;
  port::Log& log_;
  Metrics& metrics_;
  Announce announce_;
};

}  // namespace moonfence::app
