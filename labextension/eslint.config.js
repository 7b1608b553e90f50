import eslint from "@eslint/js";
import { defineConfig, globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  globalIgnores(["node_modules", "coverage", "screenshots", "lib"]),
  eslint.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "max-lines-per-function": ["error", { max: 50, skipComments: true }],
      "max-lines": ["error", 300],
    },
  },
  { files: ["tests/**"], rules: { "max-lines-per-function": "off" } },
  {
    // Programs for node, and a page's script that is not type-checked.
    files: ["scripts/**", "demo/**", "*.js", "*.ts"],
    languageOptions: {
      globals: Object.fromEntries(
        ["console", "process", "URL", "window", "document", "performance", "setTimeout"].map(
          (name) => [name, "readonly"],
        ),
      ),
    },
  },
);
