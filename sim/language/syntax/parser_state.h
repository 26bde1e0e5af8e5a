// parser_state.h - the recursive descent parser behind parser.h; one object parses one text.
// Private to parse_expression.cpp, parse_format.cpp and parse_statement.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/language/syntax/ast.h"
#include "sim/language/syntax/lexer.h"

namespace shardlab {

/// Holds all tokens of the text. `nesting`: how deep the expression around this text is already.
class Parser {
 public:
  Parser(const SourceText& source, std::vector<Token> tokens, int nesting = 0)
      : source_(source), tokens_(std::move(tokens)), nesting_(nesting) {}

  /// All statements up to the end of the tokens.
  ast::Block program();
  /// An expression up to the end of the tokens; tuples without parentheses are allowed.
  ast::ExpressionPtr whole_expression();

 private:
  // Tokens.
  const Token& peek(std::size_t ahead = 0) const;
  const Token& next();
  bool at_operator(std::string_view text) const;
  bool at_keyword(std::string_view text) const;
  bool accept_operator(std::string_view text);
  bool accept_keyword(std::string_view text);
  /// `after` completes "expected ':' after ...".
  void expect_operator(std::string_view text, std::string_view after, std::string_view fix);
  std::string expect_name(std::string_view what, std::string_view fix);
  SourceSpan last_span() const { return tokens_[at_ - 1].span; }
  [[noreturn]] void unexpected(std::string_view wanted, std::string_view fix) const;
  [[noreturn]] void refuse_at(const Token& token, std::string summary, std::string fix = "") const;

  ast::ExpressionPtr make(SourceSpan span, auto node) const {
    return with_depth(
        std::unique_ptr<ast::Expression>(new ast::Expression{span, 1, std::move(node)}));
  }
  /// Refuses too deep a tree.
  ast::ExpressionPtr with_depth(std::unique_ptr<ast::Expression> made) const;
  [[noreturn]] void refuse_depth(SourceSpan span) const;

  /// One level of recursion. Brackets and prefix operators recurse before a tree exists to measure.
  class Nesting {
   public:
    explicit Nesting(int& depth) : depth_(depth) { ++depth_; }
    ~Nesting() { --depth_; }
    Nesting& operator=(Nesting&&) = delete;

   private:
    int& depth_;
  };
  Nesting nest();

  // Expressions, from loose to tight.
  ast::ExpressionPtr expression_list();
  ast::ExpressionPtr item(bool named = true);
  /// `first`, and those that follow after commas, up to the comma behind which `ends` holds.
  std::vector<ast::ExpressionPtr> listed(ast::ExpressionPtr first,
                                         const std::function<bool()>& ends,
                                         const std::function<ast::ExpressionPtr()>& read);
  std::vector<ast::ExpressionPtr> items_until(std::string_view close, ast::ExpressionPtr first);
  void refuse_lone_star(const ast::Expression& expression) const;
  ast::ExpressionPtr walrus(ast::ExpressionPtr target);
  // An expression, or (n := value) without the brackets: in brackets and conditions.
  ast::ExpressionPtr named_expression();
  ast::ExpressionPtr expression();
  ast::ExpressionPtr logical_or();
  ast::ExpressionPtr logical_and();
  ast::ExpressionPtr logical(ast::BoolOp op, ast::ExpressionPtr (Parser::*operand)());
  ast::ExpressionPtr logical_not();
  ast::ExpressionPtr comparison();
  bool accept_comparison(ast::CompareOp& op);
  ast::ExpressionPtr binary(int loosest);
  ast::ExpressionPtr unary();
  ast::ExpressionPtr power();
  ast::ExpressionPtr postfix();
  ast::ExpressionPtr call(SourceSpan start, ast::ExpressionPtr function);
  ast::CallArgument call_argument(const std::vector<ast::CallArgument>& before);
  ast::ExpressionPtr subscript(SourceSpan start, ast::ExpressionPtr object);
  ast::ExpressionPtr slice_or_expression();
  ast::ExpressionPtr atom();
  ast::ExpressionPtr strings();
  ast::ExpressionPtr parenthesised();
  ast::ExpressionPtr list_display();
  /// `key` is null for a list. `close` ends it; empty: nothing does, as in sum(x for x in a).
  ast::ExpressionPtr comprehension(std::uint32_t begin, ast::ExpressionPtr key,
                                   ast::ExpressionPtr element, std::string_view close,
                                   bool set = false);
  ast::ExpressionPtr set_display(SourceSpan start, ast::ExpressionPtr first);
  ast::ExpressionPtr dict_display();
  ast::ExpressionPtr target_list();
  void check_target(const ast::Expression& target) const;
  void append_format(const Token& token, ast::FormatString& out);
  // Up to the end of the token, or the '}' that ends the field whose format it is.
  void append_parts(const Token& token, std::size_t& i, bool in_field, ast::FormatString& out);
  ast::FormatString::Part format_field(const Token& token, std::size_t& i);

  // Statements.
  void line(ast::Block& out);
  ast::Statement compound();
  ast::Statement simple();
  ast::Statement expression_or_assignment();
  ast::Block block(std::string_view after);
  ast::Statement if_statement();
  ast::Statement for_statement();
  ast::Statement while_statement();
  /// `around`: contexts that the body runs in, of its decorators.
  ast::Statement def_statement(std::vector<ast::With::Item> around = {});
  ast::Statement decorated_def();
  ast::Statement import_statement();
  ast::Statement raise_statement();
  ast::Statement del_statement();
  ast::Statement outer_names_statement();
  ast::Statement try_statement();
  std::vector<std::string> error_kinds();
  void skip_annotation(std::string_view mark);
  void end_line(std::string_view fix);
  ast::ExpressionPtr lambda_expression();
  ast::Parameter parameter(std::string_view close, bool& named);
  std::vector<ast::Parameter> parameters_until(std::string_view close);
  ast::Statement class_statement();
  std::string dotted_name();
  ast::Def static_def();
  ast::Statement with_statement();
  bool at_grouped_contexts() const;
  std::vector<ast::Parameter> parameters();

  const SourceText& source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;
  int lambdas_ = 0;
  std::string lambda_name_;  ///< of the next lambda that is assigned to a name
  ast::Block hoisted_;       ///< the defs of the lambdas of the statement that is being read
  std::string path_;         ///< of the def around, with a dot at its end; empty: none
  /// Names that the def around declares as bound in a def around it, and at the top.
  std::vector<std::string> nonlocals_, globals_;
};

}  // namespace shardlab
