(function () {
  "use strict";
  var each = function (list, act) { Array.prototype.forEach.call(list, act); };
  document.documentElement.className = "js";

  each(document.querySelectorAll("[data-filter]"), function (tools) {
    var table = document.getElementById(tools.getAttribute("data-filter"));
    var rows = table.tBodies[0].rows;
    var input = tools.querySelector("input");
    var select = tools.querySelector("select");
    var shown = tools.nextElementSibling;
    var texts = Array.prototype.map.call(rows, function (row) { return row.textContent.toLowerCase(); });
    var apply = function () {
      var words = input.value.toLowerCase().split(/\s+/);
      var result = select ? select.value : "";
      var count = 0;
      each(rows, function (row, index) {
        var fits = (!result || row.getAttribute("data-result") === result) &&
          words.every(function (word) { return texts[index].indexOf(word) >= 0; });
        row.hidden = !fits;
        count += fits ? 1 : 0;
      });
      shown.textContent = count + " of " + rows.length;
    };
    input.addEventListener("input", apply);
    if (select) { select.addEventListener("change", apply); }
    apply();
  });

  each(document.querySelectorAll("[data-tree]"), function (button) {
    button.addEventListener("click", function () {
      var open = button.getAttribute("data-tree") === "open";
      each(document.querySelectorAll(".tree details"), function (node) { node.open = open; });
    });
  });

  window.addEventListener("beforeprint", function () {
    each(document.querySelectorAll("details"), function (node) { node.open = true; });
  });
})();
