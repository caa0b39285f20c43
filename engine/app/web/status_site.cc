#include "app/web/status_site.h"

#include <utility>

#include "app/status/status_json.h"
#include "app/web/reason_guide.h"
#include "app/web/status_assets.h"
#include "app/web/status_incident.h"
#include "app/web/status_page.h"

namespace moonfence::app {
namespace {

constexpr std::string_view kIncidents = "/incidents/";
constexpr std::string_view kJson = ".json";

// Nothing is loaded from anywhere else, nothing runs, nothing is framed or kept.
HttpAnswer guarded(HttpAnswer answer) {
  answer.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
       "frame-ancestors 'none'"},
      {"Cache-Control", "no-store"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Frame-Options", "DENY"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"}};
  return answer;
}

HttpAnswer html(std::string body, int status = 200) {
  return {.status = status,
          .content_type = "text/html; charset=utf-8",
          .body = std::move(body),
          .headers = {}};
}

HttpAnswer json(std::string body) {
  return {
      .status = 200, .content_type = "application/json", .body = std::move(body), .headers = {}};
}

HttpAnswer nothing_here(const std::string& title, const std::string& text, Markup root,
                        int status) {
  Html main;
  main << "<h1>" << title << "</h1>\n<p>" << text << "</p>\n";
  return html(bare_page(title, main, root), status);
}

// Beneath "/incidents/" the front page is one step up.
Markup root_of(const std::string& path) {
  return path.starts_with(kIncidents) ? Markup("../") : Markup("");
}

bool refreshes(const HttpRequest& request) {
  const auto found = request.query.find("refresh");
  return found == request.query.end() || found->second != "off";
}

std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    return authority.substr(0, authority.find(']') + 1);
  }
  return authority.substr(0, authority.rfind(':'));
}

bool is_local_name(std::string_view host) {
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

const IncidentStory* find(const StatusSnapshot& snapshot, std::string_view id) {
  for (const auto* stories : {&snapshot.under_way, &snapshot.past}) {
    for (const IncidentBook::Story& story : *stories) {
      if (story->id.text() == id) {
        return story.get();
      }
    }
  }
  return nullptr;
}

}  // namespace

HttpAnswer StatusSite::answer(const HttpRequest& request) const {
  // Another site's script that has its own name point to this machine sends that name.
  if (on_loopback_ && !is_local_name(host_of(request.host))) {
    return guarded(
        {.status = 421, .body = "served for localhost only; ask for http://localhost:PORT/\n"});
  }
  return guarded(page(request));
}

HttpAnswer StatusSite::page(const HttpRequest& request) const {
  if (request.path == "/style.css") {
    return {.content_type = "text/css; charset=utf-8", .body = std::string(style_sheet())};
  }
  if (request.path == "/icon.svg") {
    return {.content_type = "image/svg+xml", .body = std::string(icon())};
  }
  if (request.path == "/reasons") {
    return html(reasons_page());
  }
  if (request.path.starts_with(kIncidents)) {
    return incident(request);
  }
  if (request.path != "/" && request.path != "/status.json") {
    return nothing_here("Not found", "There is no such page here.", "", 404);
  }
  const auto snapshot = board_.read();
  if (snapshot == nullptr) {
    return nothing_here("Starting", "The engine has not told anything yet. Load this page again.",
                        "", 503);
  }
  if (request.path == "/status.json") {
    return json(status_json(*snapshot, now_()));
  }
  return html(front_page(
      {.snapshot = *snapshot, .now = now_(), .refreshes = refreshes(request), .root = ""}));
}

HttpAnswer StatusSite::incident(const HttpRequest& request) const {
  std::string_view id = std::string_view(request.path).substr(kIncidents.size());
  const bool as_json = id.ends_with(kJson);
  if (as_json) {
    id.remove_suffix(kJson.size());
  }
  const auto snapshot = board_.read();
  const IncidentStory* story = snapshot == nullptr ? nullptr : find(*snapshot, id);
  if (story == nullptr) {
    return nothing_here("Not found",
                        "This replica knows no such incident, or not any more. Ask the one that "
                        "acts, or read its record in the cluster: kubectl get configmap "
                        "moonfence-incident-ID.",
                        root_of(request.path), 404);
  }
  if (as_json) {
    return json(incident_json(*snapshot, *story));
  }
  return html(incident_page(
      {.snapshot = *snapshot, .now = now_(), .refreshes = refreshes(request), .root = "../"},
      *story));
}

bool is_loopback(std::string_view address) {
  return is_local_name(host_of(address));
}

}  // namespace moonfence::app
