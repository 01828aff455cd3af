import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The page is served under a policy that allows scripts and styles of its own origin only: nothing is
// inlined, and all files have names with a hash of their content, so that a browser may keep them.
export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/quorate/dashboard/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8585", "/login/": "http://127.0.0.1:8585" } },
  test: { include: ["src/**/*.test.ts"] },
});
