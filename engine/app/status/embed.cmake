# Writes OUTPUT, the source file of app/status_assets.h, from STYLE and ICON.
file(READ ${STYLE} style)
file(READ ${ICON} icon)
file(WRITE ${OUTPUT} "#include \"app/status_assets.h\"

namespace moonfence::app {
namespace {

constexpr std::string_view kStyle = R\"moonfence(${style})moonfence\";
constexpr std::string_view kIcon = R\"moonfence(${icon})moonfence\";

}  // namespace

std::string_view style_sheet() {
  return kStyle;
}

std::string_view icon() {
  return kIcon;
}

}  // namespace moonfence::app
")
