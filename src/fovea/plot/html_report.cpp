#include "fovea/plot/html_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/base64.h"
#include "fovea/data/png_writer.h"
#include "fovea/plot/html_page.h"

namespace fovea::plot {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostCurvePoints = 400;  // of a curve on the page

Json pairs_json(const RunPage::Rows& rows) {
  Json list = Json::array();
  for (const auto& [key, value] : rows) list.push_back({key, value});
  return list;
}

// Six digits are more than a screen shows.
Json rounded_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.6g}", value));
}

Json curves_json(const Curves& curves) {
  Json panels = Json::array();
  for (const auto& panel : curves.panels) {
    Json list = Json::array();
    for (const auto& curve : panel.curves) {
      const Series thin = thinned(curve.series, kMostCurvePoints);
      Json y = Json::array();
      for (const double value : thin.y) y.push_back(rounded_number(value));
      list.push_back({{"validation", curve.is_validation}, {"x", thin.x}, {"y", std::move(y)}});
    }
    panels.push_back({{"measure", panel.measure}, {"curves", std::move(list)}});
  }
  return {{"x", curves.x_label}, {"panels", std::move(panels)}};
}

Json scores_json(const tasks::Report& report) {
  Json facts = Json::array(), grids = Json::array(), matrices = Json::array();
  for (const auto& fact : report.facts) {
    if (!fact.in_table) continue;
    const std::string label = fact.label.empty() ? fact.key : fact.label;
    facts.push_back({label, fact.text.empty() ? tasks::shown(fact.value) : fact.text});
  }
  for (const auto& grid : report.grids) {
    Json columns = Json::array(), rows = Json::array();
    for (const auto& column : grid.columns) columns.push_back(column.label);
    for (const auto& row : grid.rows) {
      Json& cells = rows.emplace_back(Json::array());
      for (size_t c = 0; c < row.size(); ++c) cells.push_back(tasks::shown(row[c], grid.columns[c].digits));
    }
    grids.push_back({{"columns", std::move(columns)}, {"rows", std::move(rows)}});
  }
  for (const auto& matrix : report.matrices) {
    matrices.push_back({{"label", matrix.label}, {"names", matrix.names}, {"counts", matrix.counts}});
  }
  return {{"facts", std::move(facts)}, {"grids", std::move(grids)}, {"matrices", std::move(matrices)}};
}

// Weights as bytes, 255 for the greatest one: a screen shows no more.
Json attention_json(const tasks::Report::Attention& a) {
  const float most = a.weights.empty() ? 1 : std::max(1e-9F, *std::max_element(a.weights.begin(), a.weights.end()));
  std::string bytes;
  for (const float weight : a.weights)
    bytes += static_cast<char>(std::lround(255 * std::clamp(weight / most, 0.F, 1.F)));
  Json object = {{"name", a.key},           {"group", a.group}, {"queries", a.queries},
                 {"keys", a.keys},          {"heads", a.heads}, {"most", rounded_number(most)},
                 {"weights", base64(bytes)}};
  if (a.grid_rows > 0) object["grid"] = {a.grid_rows, a.grid_columns};
  return object;
}

Json examples_json(const tasks::Examples& examples) {
  Json list = Json::array();
  for (const auto& example : examples.examples) {
    Json attention = Json::array();
    for (const auto& a : example.attentions) attention.push_back(attention_json(a));
    Json object = {{"input", example.input},
                   {"expected", example.expected},
                   {"predicted", example.predicted},
                   {"score", rounded_number(example.score)},
                   {"attention", std::move(attention)}};
    if (const auto& p = example.picture)
      object["image"] = base64(data::encode_png(p->channels, p->height, p->width, p->pixels));
    list.push_back(std::move(object));
  }
  return {{"score", examples.score_name}, {"list", std::move(list)}};
}

// Text between tags.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

// JSON inside a script element: no "</script>" and no "<!--" can be in it.
std::string safe_json(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace))
    out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

}  // namespace

std::string html_report(const RunPage& page) {
  const Json json = {{"title", page.title},
                     {"summary", pairs_json(page.summary)},
                     {"settings", pairs_json(page.settings)},
                     {"data", pairs_json(page.data)},
                     {"curves", curves_json(page.curves)},
                     {"scores", scores_json(page.scores)},
                     {"examples", examples_json(page.examples)}};
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{}</style>\n"
      "</head>\n<body>\n<noscript>This page draws itself with a script, which is switched off.</noscript>\n"
      "<script type=\"application/json\" id=\"page\">{}</script>\n<script>{}</script>\n</body>\n</html>\n",
      escaped(page.title), kPageStyle, safe_json(json), kPageScript);
}

}  // namespace fovea::plot
