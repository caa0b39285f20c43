#include "app/web/status_frame.h"

#include "app/settings/version.h"
#include "app/status/status_words.h"

namespace moonfence::app {
namespace {

void head(Html& page, const std::string& title, bool refreshes, Markup root) {
  page << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n";
  if (refreshes) {
    page << "<meta http-equiv=\"refresh\" content=\"" << kRefreshSeconds << "\">\n";
  }
  page
      << "<title>" << title << " · moonfence</title>\n<link rel=\"stylesheet\" href=\"" << root
      << "style.css\">\n<link rel=\"icon\" type=\"image/svg+xml\" href=\"" << root
      << "icon.svg\">\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n";
}

void brand(Html& page, Markup root) {
  page << "<a class=\"brand\" href=\"" << root << "./\"><img src=\"" << root
       << "icon.svg\" alt=\"\" width=\"22\" height=\"22\">moonfence</a>";
}

void header(Html& page, const StatusView& view, const StatusFrame& frame) {
  const bool refreshes = frame.may_refresh && view.refreshes;
  page << "<header>\n";
  brand(page, view.root);
  page << "\n<nav aria-label=\"Sections\"><a href=\"" << view.root
       << "./#incidents\">Incidents</a> "
       << "<a href=\"" << view.root << "./#nodes\">Nodes</a> <a href=\"" << view.root
       << "./#policies\">Policies</a> <a href=\"" << view.root << "./#engine\">Engine</a></nav>\n"
       << "<p class=\"taken\">As of " << time_html(view.snapshot.taken, view.now)
       << " UTC, <span class=\"age\">" << age_text(view.snapshot.taken, view.now) << "</span>";
  if (frame.may_refresh) {
    page << " · ";
    if (refreshes) {
      page << "every " << kRefreshSeconds << " s · <a href=\"" << view.root << frame.path
           << "?refresh=off\">Pause</a>";
    } else {
      page << "paused · <a href=\"" << view.root << frame.path << "\">Go on</a>";
    }
  }
  page << "</p>\n</header>\n";
}

void footer(Html& page, Markup root) {
  page << "<footer>\n<p>moonfence " << version() << " <span class=\"muted\">(" << commit()
       << ")</span> · read-only · all times are UTC</p>\n<p><a href=\"" << root
       << "reasons\">What the reasons mean</a> · <a href=\"" << root
       << "status.json\">The same as JSON</a></p>\n</footer>\n</body>\n</html>\n";
}

}  // namespace

std::string framed(const StatusView& view, const StatusFrame& frame) {
  Html page;
  head(page, frame.title, frame.may_refresh && view.refreshes, view.root);
  header(page, view, frame);
  page << "<main id=\"main\" tabindex=\"-1\">\n" << frame.main << "</main>\n";
  footer(page, view.root);
  return page.text();
}

std::string bare_page(const std::string& title, const Html& main, Markup root) {
  Html page;
  head(page, title, false, root);
  page << "<header>\n";
  brand(page, root);
  page << "\n</header>\n<main id=\"main\" tabindex=\"-1\">\n<p class=\"up\"><a href=\"" << root
       << "./\">The status page</a></p>\n"
       << main << "</main>\n";
  footer(page, root);
  return page.text();
}

}  // namespace moonfence::app
