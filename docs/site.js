// MathJax: all that it needs is in its file
window.MathJax = {
  options: { enableMenu: false, processHtmlClass: "tex2jax_process|mathjax_process|math|output_area" },
  svg: { fontCache: "global" },
};

// A search shows lines of the pages that it finds where these can be fetched, which they cannot from a folder
document.addEventListener("DOMContentLoaded", () => {
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
});
