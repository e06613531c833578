#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace fovea::tasks {

/// A number, text or nothing. NaN and infinity count as nothing.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// For people: "-" for nothing; numbers with a point have so many digits behind it.
std::string shown(const Value& value, int digits = 4);

/// What an evaluation found, described once: printed as a table, as JSON, drawn or served by those who know no task.
struct Report {
  /// One line: "accuracy  0.9174 (9174 of 10000 right)".
  struct Fact {
    std::string key;         // in JSON; empty: not there
    Value value = {};        // in JSON
    std::string label = {};  // in the table; empty: the key
    std::string text = {};   // in the table; empty: the value with 4 digits
    bool in_table = true;    // false: in JSON only
  };
  struct Column {
    std::string key;    // in JSON
    std::string label;  // in the table
    int digits = 4;     // of numbers with a point, in the table
    bool in_json = true, in_table = true;
  };
  /// Whether the rows of a table are bands of examples, named by the first column, whose numbers can be drawn.
  enum class Bands {
    kNone,
    kOrdered,  // short, longer, longest
    kNamed,    // classes
  };
  /// In JSON a list of objects, one a row; rows beyond `json_rows` (a mean, a total) are in the printed table only.
  struct Grid {
    std::string key;
    std::vector<Column> columns;
    std::vector<std::vector<Value>> rows;
    size_t json_rows = SIZE_MAX;
    bool comes_first = false;  // before the facts: examples, which one scrolls past
    std::string title = {};    // a line above the table
    Bands bands = Bands::kNone;
  };
  /// Counts of (row, column). In JSON a list of lists.
  struct Matrix {
    std::string key;
    std::string label;               // of the corner: "actual \\ predicted"
    std::vector<std::string> names;  // of rows and columns
    std::vector<std::vector<int64_t>> counts;
  };

  /// The weights of one attention for one input. In JSON an object with "weights": for each head, for each query, the
  /// weights of the keys. Padding is not in it.
  struct Attention {
    std::string key;                   // the path of the module: "decoder.blks.block0.attention2"
    std::string group;                 // which kind it is: "encoder", "decoder", "cross", "image", "roll-out"
    std::vector<std::string> queries;  // what the rows stand for: tokens, numbers
    std::vector<std::string> keys;     // what the columns stand for
    int64_t heads = 1;
    std::vector<std::string> head_names = {};  // empty: numbers
    std::vector<float> weights;  // (heads, queries, keys); rows sum to 1, of a group that is no weight to 1 as well
    // Where the last rows * columns keys are patches of a picture, row by row; else 0.
    int64_t grid_rows = 0, grid_columns = 0;

    float weight(int64_t head, size_t query, size_t key_index) const {
      return weights[(static_cast<size_t>(head) * queries.size() + query) * keys.size() + key_index];
    }
  };
  /// An image, to stand beside what is said of it. Not in JSON.
  struct Picture {
    int64_t channels = 1, height = 0, width = 0;
    std::vector<uint8_t> pixels;  // (channels, height, width)
  };

  /// One example and what was predicted for it.
  struct Example {
    std::string input, expected, predicted;
    double score = 0;  // how good the prediction is, higher is better
    std::optional<Picture> picture = {};
    std::vector<Attention> attentions = {};
  };

  std::vector<Fact> facts;
  std::vector<Grid> grids;
  std::vector<Matrix> matrices;
  std::vector<Attention> attentions = {};
  std::optional<Picture> picture = {};
  std::vector<std::string> warnings = {};  // why a number may mean little; in JSON too, where there are some

  /// Tables for people, wrapped to `width` columns; 0: as wide as they are.
  std::string text(int64_t width) const;
  /// One JSON object on one line.
  std::string json() const;
};

}  // namespace fovea::tasks
